import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import type { SetObject } from "./kinds.ts";
import {
  lookAtRest,
  lookMoved,
  lookRestored,
  lookRunning,
  lookScaled,
  lookSuspended,
  setProgress,
} from "./set-progress.ts";

type Status = NonNullable<SetObject["status"]>;

function set(status: Status, spec: object = {}): SetObject {
  return {
    metadata: { name: "demo", generation: 5 },
    spec: { agent: { image: "x" }, ...spec },
    status: {
      observedGeneration: 5,
      readyAgents: 1,
      desiredAgents: 2,
      conditions: [{ ...condition("Degraded", "AsExpected", ""), status: "False" }],
      ...status,
    },
  };
}

function condition(type: string, reason: string, message: string) {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  return { type, status: "True" as const, reason, message, lastTransitionTime, observedGeneration: 5 };
}

const at = { generation: 5 };

test("one line says how far a set is and what keeps it", () => {
  assert.equal(setProgress({ metadata: {} }), "the operator has not observed it yet");
  assert.equal(setProgress(set({ phase: "Scaling" })), "Scaling, 1 of 2 machines ready");
  assert.equal(
    setProgress(set({ phase: "Suspending", hibernatedMachines: 1, observedGeneration: 4 })),
    "Suspending, 1 of 2 machines ready, 1 asleep (the change is not taken up yet)",
  );
  const degraded = set({ phase: "Pending", conditions: [condition("Degraded", "NameConflict", "taken")] });
  assert.equal(setProgress(degraded), "Pending, 1 of 2 machines ready: taken");
});

test("an old status is no answer to a new spec", () => {
  const before = set({ phase: "Running", observedGeneration: 4 });
  assert.equal(lookRunning(before, at).kind, "waiting");
  assert.equal(lookSuspended(set({ phase: "Suspended", observedGeneration: 4 }), at).kind, "waiting");
  assert.equal(lookMoved(before, { ...at, node: "b" }).kind, "waiting");
});

test("running, suspended and at rest are reported with their numbers", () => {
  assert.deepEqual(lookRunning(set({ phase: "Running", hibernatedMachines: 1 }), at), {
    kind: "done",
    text: "demo: running, 2 machines, 1 of them asleep on request",
  });
  assert.deepEqual(lookSuspended(set({ phase: "Suspended", hibernatedMachines: 1 }), at), {
    kind: "done",
    text: "demo: suspended, 1 machine sleeps",
  });
  assert.equal(lookAtRest(set({ phase: "Suspended" }, { suspend: true }), at).kind, "done");
  assert.equal(lookAtRest(set({ phase: "Running" }, { suspend: true }), at).kind, "waiting");
});

test("what can never come true ends the wait with its reason", () => {
  const failed = set({
    phase: "Failed",
    conditions: [condition("Degraded", "PodLifecycleFailed", "no image")],
  });
  assert.throws(() => lookRunning(failed, at), /set demo failed: no image/);
  const scheduled = set({ phase: "Suspended" }, { schedule: [{ cron: "@daily", action: "Hibernate" }] });
  assert.throws(() => lookRunning(scheduled, at), /sleeps by its schedule/);
  for (const reason of ["MigrationRefused", "MigrationReturned"]) {
    const refused = set({ phase: "Running", conditions: [condition("Degraded", reason, "no room on b")] });
    assert.throws(
      () => lookMoved(refused, { ...at, node: "b" }),
      (error) => error instanceof Fault && /no room on b; name another node/.test(error.message),
    );
  }
});

test("a move is done when the main agent is ready there", () => {
  const agents = (nodeName: string, ready: boolean) => [
    { slot: 0, role: "main" as const, podName: "demo-0", nodeName, ready },
  ];
  const options = { ...at, node: "b" };
  assert.equal(lookMoved(set({ phase: "Running", agents: agents("a", true) }), options).kind, "waiting");
  assert.equal(lookMoved(set({ phase: "Migrating", agents: agents("b", false) }), options).kind, "waiting");
  assert.deepEqual(lookMoved(set({ phase: "Running", agents: agents("b", true) }), options), {
    kind: "done",
    text: "demo-0: runs on b",
  });
});

test("a scale is done when the requested sub-agents are there", () => {
  const options = { ...at, replicas: 1 };
  assert.equal(lookScaled(set({ phase: "Running", subAgents: 2 }), options).kind, "waiting");
  assert.equal(lookScaled(set({ phase: "Running", subAgents: 1 }), options).kind, "done");
  assert.match(lookScaled(set({ phase: "Suspended" }), options).text, /wakes with 1 sub-agents/);
});

test("a machine that is not replaced yet keeps a restore waiting", () => {
  const old = set({
    phase: "Running",
    conditions: [{ ...condition("UpToDate", "Outdated", "demo-0: image changed"), status: "False" }],
  });
  assert.match(lookRestored(old, at).text, /demo-0: image changed/);
  assert.equal(lookRestored(set({ phase: "Running" }), at).kind, "done");
});

test("nothing waits for a field that our operator wrote before a Go operator took over", () => {
  // Its status: our additions are those of the generation before, or were never there.
  const stale = [{ ...condition("Degraded", "NameConflict", "taken"), observedGeneration: 4 }];
  const outdated = {
    ...condition("UpToDate", "Outdated", "old"),
    status: "False" as const,
    observedGeneration: 4,
  };
  const left = {
    phase: "Running" as const,
    subAgents: 3,
    hibernatedMachines: 1,
    conditions: [...stale, outdated],
  };
  for (const status of [left, { phase: "Running" as const, conditions: [] }]) {
    assert.equal(lookScaled(set(status), { ...at, replicas: 1 }).kind, "done");
    assert.equal(lookRestored(set(status), at).kind, "done");
    assert.deepEqual(lookRunning(set(status), at), { kind: "done", text: "demo: running, 2 machines" });
    const agents = [{ slot: 0, role: "main" as const, podName: "demo-0", phase: "Running" }];
    assert.equal(lookMoved(set({ ...status, agents }), { ...at, node: "b" }).kind, "done");
    assert.deepEqual(lookSuspended(set({ ...status, phase: "Suspended" }), at), {
      kind: "done",
      text: "demo: suspended",
    });
  }
});
