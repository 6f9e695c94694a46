/** Plans towards a running machine. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  copy,
  lifecycle,
  machine,
  observed,
  paused,
  ready,
  running,
  snapshot,
  stopped,
} from "../testing/plan-fixtures.ts";
import type { Observed } from "./observed.ts";
import { planMachine } from "./plan.ts";

const creating = lifecycle("creating");
const elsewhere = { ...snapshot, fromNode: "there" };
const claimed = { ...snapshot, claims: ["here"] };
const recorded = { lifecycle: creating, recordedDigest: snapshot.digest };
const isReady = {
  machine: machine({ lifecycle: lifecycle("ready"), vmId: "VM1" }),
  vm: running,
  probe: ready,
};

const member = { ...isReady.machine, pause: true };

const loadingVm = { ...running, restoredFrom: snapshot.digest, loading: true };
const loadingMachine = machine({ lifecycle: lifecycle("ready"), vmId: "VM1", loading: true });

const loadingEnded = { ...loadingVm, state: "stopped", hasAnswered: false } as const;
const waking = { machine: machine({ lifecycle: creating, vmId: "VM1", loading: true }), hibernated: claimed };

const fresh: readonly (readonly [string, Observed, string])[] = [
  ["a new machine is made at once", observed({}), "run"],
  [
    "after a failure the attempt is announced",
    observed({ machine: machine({ lifecycle: lifecycle("failed") }) }),
    "announce",
  ],
  ["mode clone", observed({ machine: machine({ lifecycle: creating, mode: "clone" }) }), "clone"],
  ["no mode", observed({ machine: machine({ lifecycle: creating, mode: "" }) }), "decideMode"],
  ["fork-from wins over run", observed({ machine: machine({}, { forkFrom: "vk-lab-a" }) }), "fork"],
  ["a directory", observed({ machine: machine({ cloneFromDir: "/d", mode: "clone" }) }), "cloneFromDir"],
  ["a directory and mode run", observed({ machine: machine({ cloneFromDir: "/d" }) }), "refuse"],
  ["static", observed({ machine: machine({ vmId: "x", ip: "10.0.0.1" }, { managed: false }) }), "showStatic"],
  ["static without address", observed({ machine: machine({ vmId: "x" }, { managed: false }) }), "refuse"],
];

const wakes: readonly (readonly [string, Observed, string])[] = [
  [
    "the digest is recorded first",
    observed({ hibernated: snapshot, machine: machine({ lifecycle: creating }) }),
    "record",
  ],
  ["then the snapshot is claimed", observed({ hibernated: snapshot, machine: machine(recorded) }), "claim"],
  ["then restored", observed({ hibernated: claimed, machine: machine(recorded) }), "restore"],
  [
    "another image",
    observed({ hibernated: { ...snapshot, baseImage: "a" }, machine: machine({}, { image: "b" }) }),
    "refuse",
  ],
  ["hibernated elsewhere, VM not proven gone", observed({ hibernated: elsewhere }), "refuse"],
  ["hibernated elsewhere, sealed", observed({ hibernated: { ...elsewhere, sealed: true } }), "record"],
  ["hibernated elsewhere, fenced", observed({ hibernated: elsewhere, fencedNodes: ["there"] }), "record"],
  [
    "hibernated elsewhere, marked by the operator",
    observed({ hibernated: elsewhere, machine: machine({ restoreMarked: true }) }),
    "record",
  ],
  [
    "two nodes claim it and neither has restored it: the own claim goes",
    observed({ hibernated: { ...snapshot, sealed: true, claims: ["here", "there"] } }),
    "removeClaim",
  ],
  [
    "claimed by another node, whatever else is proven",
    observed({
      hibernated: { ...snapshot, sealed: true, claims: ["there"] },
      machine: machine({ ...recorded, restoreMarked: true }),
    }),
    "refuse",
  ],
  [
    "claimed by another node that is fenced: the claim goes first",
    observed({
      hibernated: { ...snapshot, claims: ["there"] },
      fencedNodes: ["there"],
      machine: machine(recorded),
    }),
    "removeClaim",
  ],
  [
    "a snapshot of another namespace",
    observed({ hibernated: { ...snapshot, namespace: "other" } }),
    "refuse",
  ],
  ["marked, but nothing is hibernated", observed({ machine: machine({ restoreMarked: true }) }), "refuse"],
  [
    "recorded, but nothing is hibernated",
    observed({ machine: machine({ recordedDigest: "sha256:d1" }) }),
    "refuse",
  ],
  [
    "hibernated, but nothing is there",
    observed({ machine: machine({ lifecycle: lifecycle("hibernated") }) }),
    "refuse",
  ],
  [
    "its VM is gone",
    observed({ machine: machine({ lifecycle: lifecycle("ready"), vmId: "VM0" }) }),
    "refuse",
  ],
];

const live: readonly (readonly [string, Observed, string])[] = [
  [
    "a VM of another namespace is not adopted",
    observed({ vm: { ...running, namespace: "other" } }),
    "refuse",
  ],
  [
    "paused by a hibernation that was cancelled",
    observed({ vm: paused, local: copy, machine: machine({ lifecycle: creating }) }),
    "dropLocal",
  ],
  ["then it continues", observed({ vm: paused, machine: machine({ lifecycle: creating }) }), "resume"],
  ["stopped", observed({ vm: stopped, machine: machine({ lifecycle: lifecycle("ready") }) }), "start"],
  [
    "stopped by a crash after its hibernation was recorded: restored, not booted",
    observed({ vm: stopped, local: copy, hibernated: snapshot, machine: machine(recorded) }),
    "remove",
  ],
  [
    "stopped by a crash after it continued in place: what is hibernated is old",
    observed({ vm: stopped, hibernated: snapshot, machine: machine(recorded) }),
    "start",
  ],
  [
    "a new attempt after a failure",
    observed({ vm: running, machine: machine({ lifecycle: lifecycle("failed") }) }),
    "announce",
  ],
  ["a running VM is probed", observed({ vm: running }), "probe"],
  ["no result yet", observed({ vm: running, probe: { ...ready, result: undefined } }), "settled"],
  ["a result is published", observed({ vm: running, probe: { ...ready, published: false } }), "publish"],
  [
    "ready at an older generation",
    observed({ ...isReady, machine: machine({ lifecycle: lifecycle("ready", 1), generation: 2 }) }),
    "publish",
  ],
  ["not ready", observed({ ...isReady, probe: { ...ready, result: { ok: false, message: "" } } }), "settled"],
  ["ready, nothing hibernated", observed({ ...isReady, stale: undefined }), "clearDigest"],
  ["ready, the registry does not answer", observed({ ...isReady, stale: "unavailable" }), "wait"],
  ["ready, all done", observed({ ...isReady, wakeFinished: true }), "settled"],
  ["a member of a pool, ready", observed({ ...isReady, machine: member, wakeFinished: true }), "pause"],
  ["but not before its wake is complete", observed({ ...isReady, machine: member }), "clearDigest"],
  [
    "a member that stands still",
    observed({ machine: { ...member, paused: true }, vm: paused, wakeFinished: true }),
    "settled",
  ],
  [
    "that was paused by an earlier process: it is probed once more",
    observed({ machine: { ...member, paused: true }, vm: paused }),
    "resume",
  ],
  [
    "a member that a claim took",
    observed({ machine: { ...member, pause: false, paused: true }, vm: paused, wakeFinished: true }),
    "resume",
  ],
  [
    "which is told when it answers",
    observed({ ...isReady, machine: { ...member, pause: false, paused: true }, wakeFinished: true }),
    "clearPaused",
  ],
  [
    "ready, but still loading: its snapshot stays, whatever the registry shows",
    observed({ ...isReady, vm: loadingVm, stale: { digest: snapshot.digest, vmId: "VM7" } }),
    "settled",
  ],
  [
    "ended while loading, before its guest answered: its snapshot still has everything",
    observed({ ...waking, vm: loadingEnded }),
    "wakeAgain",
  ],
  [
    "ended while loading, after its guest answered: what it wrote is kept",
    observed({ ...waking, vm: { ...loadingEnded, hasAnswered: true } }),
    "start",
  ],
  [
    "ended while loading, after it was ready",
    observed({ ...waking, machine: loadingMachine, vm: loadingEnded }),
    "start",
  ],
  [
    "ended while loading, and its snapshot was not found",
    observed({ ...waking, hibernated: undefined, vm: loadingEnded }),
    "start",
  ],
  [
    "ended while loading, and the snapshot is another one",
    observed({ ...waking, hibernated: { ...claimed, digest: "sha256:d2" }, vm: loadingEnded }),
    "start",
  ],
  [
    "ended while loading, again and again",
    observed({ ...waking, vm: loadingEnded, starts: { inRow: 5, failure: "" } }),
    "refuse",
  ],
  ["ready and all of it local", observed({ ...isReady, machine: loadingMachine }), "announceLocal"],
];

for (const [name, world, step] of [...fresh, ...wakes, ...live])
  test(`${name}: ${step}`, () => assert.equal(planMachine(world).kind, step));

test("only the snapshot that the running VM comes from is dropped; any other is kept and reported", () => {
  const stale = { digest: "sha256:d1", vmId: "VM7" };
  const plan = (restoredFrom: string, vmId = "VM7") =>
    planMachine(observed({ ...isReady, vm: { ...running, restoredFrom }, stale: { ...stale, vmId } })).kind;
  assert.equal(plan("sha256:d1"), "dropTag");
  assert.equal(plan("sha256:d0"), "reportSnapshot");
  assert.equal(plan(""), "reportSnapshot", "a VM that booted fresh, whatever node the snapshot is from");
  assert.equal(plan("", ""), "reportSnapshot", "a snapshot that says nothing of its origin");
  assert.equal(plan("", "VM1"), "dropTag", "saved of this very VM, which continued in place");
});

test("a VM that does not stay up is started a few times, then refused and kept", () => {
  const again = (inRow: number, failure = "") =>
    planMachine(observed({ vm: stopped, starts: { inRow, failure } }));
  assert.equal(again(4).kind, "start");
  const refused = again(5);
  assert.ok(refused.kind === "refuse");
  assert.equal(refused.reason, "RestartCooldown");
  const failed = again(5, "no kernel");
  assert.ok(failed.kind === "refuse");
  assert.equal(failed.reason, "RestartFailed");
  assert.match(failed.message, /no kernel/);
  const asleep = machine({ hibernate: true, lifecycle: lifecycle("hibernating") });
  const hibernating = planMachine(
    observed({ vm: stopped, machine: asleep, starts: { inRow: 5, failure: "" } }),
  );
  assert.equal(hibernating.kind, "refuse");
});
