import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { assertPermitted, permission, stateAfter, vmActions, vmStates } from "./state.ts";

test("every action says something about every state, and its result is a state", () => {
  for (const action of vmActions) {
    for (const state of vmStates) {
      assert.ok(["act", "noop", "refuse"].includes(permission(action, state)), `${action} in ${state}`);
      assert.ok(vmStates.includes(stateAfter(action, state)), `${action} in ${state}`);
    }
  }
});

test("an action that is done is a no-op when repeated, or leaves the state alone", () => {
  for (const action of vmActions.filter((each) => !each.startsWith("remove"))) {
    for (const state of vmStates.filter((each) => permission(action, each) === "act")) {
      const after = stateAfter(action, state);
      assert.notEqual(permission(action, after), "refuse", `${action} in ${state}, then again in ${after}`);
    }
  }
});

test("a VM being created can only be removed by force", () => {
  const possible = vmActions.filter((action) => permission(action, "creating") !== "refuse");
  assert.deepEqual(possible, ["removeByForce"]);
});

test("a refusal is a conflict that names the VM, the state and what would be needed", () => {
  const refuse = (action: "save" | "remove", state: "stopped" | "running") => () =>
    assertPermitted(action, { name: "web", state });
  assert.throws(
    refuse("save", "stopped"),
    (error) => isFault(error, "conflict") && error.message.includes("VM not running"),
  );
  assert.throws(
    refuse("remove", "running"),
    (error) => isFault(error, "conflict") && error.message.includes("running (force required)"),
  );
});
