/** Plans for machines whose pod is gone or terminating. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { copy, lifecycle, machine, observed, paused, running, snapshot } from "../testing/plan-fixtures.ts";
import type { Observed } from "./observed.ts";
import { planMachine } from "./plan.ts";

const ready = lifecycle("ready");
const dying = (more: Partial<Observed>): Observed =>
  observed({
    machine: machine({ lifecycle: ready, snapshotOnDelete: true }),
    ending: "deleted",
    stale: undefined,
    ...more,
  });
const pushed = { vm: paused, local: copy, latestSnapshotId: "S1" };
const broken = { ...paused, state: "error" } as const;
const origin = { digest: "sha256:d1", vmId: "" };
const descended = { ...paused, restoredFrom: origin.digest };
const keepsNothing = machine({ lifecycle: ready });
const asleep = machine({
  hibernate: true,
  lifecycle: lifecycle("hibernated"),
  recordedDigest: snapshot.digest,
});

const macos = machine({ lifecycle: ready, snapshotOnDelete: true, isMacos: true });
const ofSandbox = machine({ lifecycle: ready });
const sandboxed = (more: Partial<Observed>) => dying({ machine: ofSandbox, sandbox: "alive", ...more });

const steps: readonly (readonly [string, Observed, string])[] = [
  ["a Sandbox that lives on: hibernated", sandboxed({ vm: running }), "announce"],
  ["also where nothing is kept at deletion", sandboxed({ vm: paused, local: copy }), "announce"],
  ["a Sandbox that ended: no snapshot", sandboxed({ vm: running, sandbox: "ended" }), "remove"],
  [
    "what it was hibernated in goes",
    sandboxed({ sandbox: "ended", hibernated: snapshot }),
    "settleSnapshots",
  ],
  [
    "also one that was drained",
    sandboxed({ sandbox: "ended", machine: machine({ lifecycle: ready, disrupted: true }) }),
    "settleSnapshots",
  ],
  ["once", sandboxed({ sandbox: "ended", snapshotsSettled: true }), "settled"],
  [
    "a machine of another system",
    dying({ vm: running, machine: machine({}, { managed: false }) }),
    "settled",
  ],
  ["a VM of another namespace", dying({ vm: { ...running, namespace: "other" } }), "settled"],
  ["saved first", dying({ vm: running }), "save"],
  ["pushed before the VM is removed", dying({ vm: paused, local: copy }), "pushLatest"],
  ["an older latest is no proof", dying({ ...pushed, latestSnapshotId: "S0" }), "pushLatest"],
  ["removed when latest is it", dying(pushed), "remove"],
  ["a VM that does not run is saved as it is", dying({ vm: broken }), "save"],
  ["an older local snapshot is not where it is", dying({ vm: broken, local: copy }), "dropLocal"],
  ["its disks are pushed", dying({ vm: broken, local: copy, savedNow: "S1" }), "pushLatest"],
  [
    "and then it is removed",
    dying({ vm: broken, local: copy, savedNow: "S1", latestSnapshotId: "S1" }),
    "remove",
  ],
  ["an engine that cannot save disks alone boots it", dying({ vm: broken, canSavePaused: false }), "start"],
  [
    "the snapshot it was restored from goes first",
    dying({ ...pushed, vm: descended, stale: origin }),
    "dropTag",
  ],
  [
    "policy never: the last copy is renamed",
    dying({ vm: descended, stale: origin, machine: keepsNothing }),
    "releaseTag",
  ],
  ["a snapshot of another origin is kept", dying({ ...pushed, stale: origin }), "reportSnapshot"],
  ["and then the machine ends", dying({ ...pushed, stale: origin, reported: true }), "remove"],
  [
    "a machine that never was ready leaves its snapshot",
    dying({
      ...pushed,
      stale: origin,
      machine: machine({ lifecycle: lifecycle("creating"), snapshotOnDelete: true }),
    }),
    "remove",
  ],
  ["policy never", dying({ vm: running, machine: keepsNothing }), "remove"],
  [
    "force-deleted: a snapshot whatever the policy",
    dying({ vm: running, machine: keepsNothing, ending: "forceDeleted" }),
    "save",
  ],
  ["the local snapshot goes last", dying({ local: copy }), "dropLocal"],
  ["unless it is to be kept", dying({ local: copy, machine: machine({ keepSnapshot: true }) }), "settled"],
  [
    "a claim that was not used is given back",
    dying({ hibernated: { ...snapshot, claims: ["here"] } }),
    "seal",
  ],
  [
    "disrupted",
    dying({ vm: running, machine: machine({ disrupted: true, lifecycle: lifecycle("hibernating") }) }),
    "save",
  ],
  [
    "disrupted without a registry",
    dying({ vm: running, hasRegistry: false, machine: machine({ disrupted: true }) }),
    "refuse",
  ],
  ["macOS, which has no snapshot", dying({ vm: running, machine: macos }), "remove"],
  ["macOS, by force", dying({ vm: running, machine: macos, ending: "forceDeleted" }), "settled"],
  ["macOS, disrupted", dying({ vm: running, machine: { ...macos, disrupted: true } }), "refuse"],
  ["disrupted, nothing left", dying({ machine: machine({ disrupted: true }) }), "settled"],
  ["hibernated", dying({ hibernated: "unknown", machine: asleep }), "settled"],
  [
    "hibernated, its local snapshot goes",
    dying({ hibernated: "unknown", local: copy, machine: asleep }),
    "dropLocal",
  ],
  [
    "hibernated, settled by the operator before",
    dying({ hibernated: undefined, local: copy, machine: asleep }),
    "dropLocal",
  ],
];

for (const [name, world, step] of steps)
  test(`deletion, ${name}: ${step}`, () => assert.equal(planMachine(world).kind, step));
