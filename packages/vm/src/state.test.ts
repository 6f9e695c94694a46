import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { assertPermitted, vmStates, type VmAction, type VmState } from "./state.ts";

function permits(action: VmAction, state: VmState): boolean | "refused" {
  try {
    return assertPermitted(action, { name: "web", state });
  } catch (error) {
    assert.ok(isFault(error, "conflict"));
    return "refused";
  }
}

test("an action that is done succeeds without effect when repeated", () => {
  const after = { start: "running", stop: "stopped", pause: "paused", resume: "running" } as const;
  for (const [action, state] of Object.entries(after)) {
    assert.equal(permits(action as keyof typeof after, state), false, action);
    assert.ok(
      vmStates.some((each) => permits(action as keyof typeof after, each) === true),
      action,
    );
  }
});

test("a VM being created can only be removed by force", () => {
  const others = [
    "start",
    "stop",
    "pause",
    "resume",
    "reset",
    "save",
    "fork",
    "restore",
    "remove",
    "exec",
  ] as const;
  for (const action of others) assert.equal(permits(action, "creating"), "refused", action);
  assert.equal(permits("removeByForce", "creating"), true);
});

test("a refusal is a conflict that names the VM, the state and what would be needed", () => {
  const refuse = (action: "save" | "remove", state: "stopped" | "running") => () =>
    assertPermitted(action, { name: "web", state });
  assert.throws(refuse("save", "stopped"), /VM not running: cannot save VM web in state stopped/);
  assert.throws(refuse("remove", "running"), /VM web is running \(force required\)/);
});
