/** Plans towards a hibernated machine. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  copy,
  lifecycle,
  machine,
  observed,
  paused,
  running,
  snapshot,
  stopped,
} from "../testing/plan-fixtures.ts";
import type { Observed } from "./observed.ts";
import { planMachine } from "./plan.ts";

const hibernating = lifecycle("hibernating");
const asleep = (more: Parameters<typeof machine>[0]) => machine({ hibernate: true, ...more });
const recorded = asleep({ lifecycle: hibernating, recordedDigest: snapshot.digest });
const going = asleep({ lifecycle: hibernating });

const steps: readonly (readonly [string, Observed, string])[] = [
  [
    "first it is announced",
    observed({ vm: running, machine: asleep({ lifecycle: lifecycle("ready") }) }),
    "announce",
  ],
  [
    "then what it has is sent while it runs",
    observed({ vm: running, pushedAhead: false, machine: going }),
    "pushAhead",
  ],
  [
    "a machine whose content is still coming is not saved yet",
    observed({ vm: { ...running, loading: true }, machine: going }),
    "wait",
  ],
  [
    "a paused VM is not sent in advance",
    observed({ vm: paused, pushedAhead: false, machine: going }),
    "save",
  ],
  [
    "an engine that cannot save paused sends nothing in advance",
    observed({ vm: running, pushedAhead: false, canSavePaused: false, machine: going }),
    "save",
  ],
  ["macOS keeps running", observed({ vm: running, machine: { ...going, isMacos: true } }), "refuse"],
  ["then saved", observed({ vm: running, machine: going }), "save"],
  [
    "a local snapshot of a VM that runs is old",
    observed({ vm: running, local: copy, machine: going }),
    "dropLocal",
  ],
  [
    "a local snapshot of another VM is old",
    observed({ vm: paused, local: { id: "S0", vmId: "VM0" }, machine: going }),
    "dropLocal",
  ],
  [
    "an engine that cannot save paused: a snapshot of an earlier attempt is old",
    observed({ canSavePaused: false, vm: running, local: copy, machine: going }),
    "dropLocal",
  ],
  [
    "an engine that cannot save paused: a snapshot made just now is taken",
    observed({ canSavePaused: false, savedNow: copy.id, vm: running, local: copy, machine: going }),
    "push",
  ],
  ["then pushed", observed({ vm: paused, local: copy, machine: going }), "push"],
  [
    "an older snapshot in the registry is no proof",
    observed({ vm: paused, local: copy, hibernated: { ...snapshot, snapshotId: "S0" }, machine: going }),
    "push",
  ],
  ["then recorded", observed({ vm: paused, local: copy, hibernated: snapshot, machine: going }), "record"],
  [
    "then the id is cleared",
    observed({
      vm: paused,
      local: copy,
      hibernated: snapshot,
      machine: asleep({ lifecycle: hibernating, recordedDigest: snapshot.digest, vmId: "VM1" }),
    }),
    "clearId",
  ],
  [
    "then the VM is removed",
    observed({ vm: paused, local: copy, hibernated: snapshot, machine: recorded }),
    "remove",
  ],
  [
    "a crash before the push: it boots again",
    observed({ vm: stopped, local: copy, machine: going }),
    "start",
  ],
  [
    "a crash after the push: what was pushed is where it stopped",
    observed({ vm: stopped, local: copy, hibernated: snapshot, machine: going }),
    "record",
  ],
  [
    "a crash of an engine that cannot save paused: it continued after the snapshot",
    observed({ canSavePaused: false, vm: stopped, local: copy, hibernated: snapshot, machine: going }),
    "start",
  ],
  ["then it is sealed", observed({ hibernated: snapshot, machine: recorded }), "seal"],
  [
    "a claim that was not used is given back",
    observed({ hibernated: { ...snapshot, sealed: true, claims: ["here"] }, machine: recorded }),
    "seal",
  ],
  [
    "claimed by another node: nothing is sealed",
    observed({ hibernated: { ...snapshot, claims: ["there"] }, machine: recorded }),
    "refuse",
  ],
  ["then announced", observed({ hibernated: { ...snapshot, sealed: true }, machine: recorded }), "announce"],
  [
    "and that is all",
    observed({
      hibernated: "unknown",
      machine: asleep({ lifecycle: lifecycle("hibernated"), recordedDigest: snapshot.digest }),
    }),
    "showAsleep",
  ],
  ["no registry", observed({ hasRegistry: false, vm: running, machine: asleep({}) }), "refuse"],
  [
    "recorded, but the snapshot is gone",
    observed({ machine: asleep({ recordedDigest: "sha256:d1" }) }),
    "refuse",
  ],
  ["a machine that never ran boots first", observed({ machine: asleep({}) }), "run"],
];

for (const [name, world, step] of steps)
  test(`${name}: ${step}`, () => assert.equal(planMachine(world).kind, step));

test("a machine that ran and is gone is never booted empty to be hibernated", () => {
  for (const facts of [
    { vmId: "VM1", lifecycle: lifecycle("ready") },
    { vmId: "VM1", lifecycle: hibernating },
    { lifecycle: hibernating },
    { vmId: "VM1", lifecycle: lifecycle("creating") },
  ]) {
    const step = planMachine(observed({ machine: asleep(facts) }));
    assert.equal(step.kind === "refuse" && step.reason, "VMGone", JSON.stringify(facts));
  }
});

test("a failure on the way is followed by a new attempt, then by hibernated", () => {
  const sealed = { ...snapshot, sealed: true };
  const plan = (state: "failed" | "hibernating") =>
    planMachine(observed({ hibernated: sealed, machine: { ...recorded, lifecycle: lifecycle(state) } }));
  assert.deepEqual(plan("failed"), { kind: "announce", state: "hibernating" });
  assert.deepEqual(plan("hibernating"), { kind: "announce", state: "hibernated" });
});
