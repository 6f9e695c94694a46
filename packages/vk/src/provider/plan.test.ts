import assert from "node:assert/strict";
import { test } from "node:test";
import { planDeletion, type SeenDeletion } from "./plan-delete.ts";
import { planMachine, type Seen, type SleepingSnapshot } from "./plan.ts";
import { machine, seen } from "../testing/plan-fixtures.ts";

const tag: SleepingSnapshot = { digest: "sha256:d1", snapshotId: "S1", fromNode: "here", baseImage: "" };
const running = { id: "VM1", state: "running" as const };
const paused = { id: "VM1", state: "paused" as const };
const stopped = { id: "VM1", state: "stopped" as const };
const copy = { id: "S1", vmId: "VM1" };
const hibernating = { state: "hibernating" as const, observedGeneration: 1, message: "" };
const hibernated = { ...hibernating, state: "hibernated" as const };
const creating = { ...hibernating, state: "creating" as const };
const ready = { ...hibernating, state: "ready" as const };
const failed = { ...hibernating, state: "failed" as const };

const bringUp: readonly (readonly [string, Seen, string])[] = [
  ["nothing was said yet: it is made at once", seen({ machine: machine({ mode: "run" }) }), "run"],
  ["it failed: the new attempt is said first", seen({ machine: machine({ lifecycle: failed }) }), "announce"],
  ["it is there, and nothing was said of it", seen({ vm: running, machine: machine({}) }), "settled"],
  ["mode run", seen({ machine: machine({ lifecycle: creating, mode: "run" }) }), "run"],
  ["mode clone", seen({ machine: machine({ lifecycle: creating, mode: "clone" }) }), "clone"],
  ["no mode", seen({ machine: machine({ lifecycle: creating, mode: "" }) }), "decideMode"],
  [
    "fork beats run",
    seen({ machine: machine({ lifecycle: creating, mode: "run" }, { forkFrom: "vk-a-0" }) }),
    "fork",
  ],
  [
    "a directory",
    seen({ machine: machine({ lifecycle: creating, cloneFromDir: "/d", mode: "clone" }) }),
    "cloneFromDir",
  ],
  [
    "a directory and run",
    seen({ machine: machine({ lifecycle: creating, cloneFromDir: "/d", mode: "run" }) }),
    "refuse",
  ],
  [
    "a running VM beats everything",
    seen({ vm: running, tag, machine: machine({ lifecycle: ready }, { forkFrom: "x" }) }),
    "settled",
  ],
  [
    "a sleeping machine beats booting",
    seen({ tag, machine: machine({ lifecycle: creating, recordedDigest: tag.digest }) }),
    "restore",
  ],
  ["its digest is recorded first", seen({ tag, machine: machine({ lifecycle: creating }) }), "record"],
  [
    "made from another image",
    seen({ tag: { ...tag, baseImage: "other" }, machine: machine({}, { image: "this" }) }),
    "refuse",
  ],
  ["asleep elsewhere, not proven gone", seen({ tag: { ...tag, fromNode: "there" } }), "refuse"],
  [
    "asleep elsewhere, sealed",
    seen({ tag: { ...tag, fromNode: "there" }, sealedDigest: tag.digest }),
    "record",
  ],
  [
    "asleep elsewhere, an older one sealed",
    seen({ tag: { ...tag, fromNode: "there" }, sealedDigest: "sha256:d0" }),
    "refuse",
  ],
  ["asleep elsewhere, fenced", seen({ tag: { ...tag, fromNode: "there" }, fromNodeFenced: true }), "record"],
  [
    "asleep elsewhere, marked by the operator",
    seen({ tag: { ...tag, fromNode: "there" }, machine: machine({ restoreMarked: true }) }),
    "record",
  ],
  ["marked, but nothing sleeps", seen({ machine: machine({ restoreMarked: true }) }), "refuse"],
  ["recorded, but nothing sleeps", seen({ machine: machine({ recordedDigest: tag.digest }) }), "refuse"],
  ["hibernated, but nothing sleeps", seen({ machine: machine({ lifecycle: hibernated }) }), "refuse"],
  ["it had a VM that is gone", seen({ machine: machine({ lifecycle: ready, vmId: "VM0" }) }), "refuse"],
  [
    "paused by a hibernation that was called off",
    seen({ vm: paused, local: copy, machine: machine({ lifecycle: creating }) }),
    "dropLocal",
  ],
  ["then it goes on", seen({ vm: paused, machine: machine({ lifecycle: creating }) }), "resume"],
  ["stopped", seen({ vm: stopped, machine: machine({ lifecycle: ready }) }), "start"],
  [
    "stopped by a crash after its sleep was recorded: it is restored from there, not booted",
    seen({
      vm: stopped,
      local: copy,
      tag,
      machine: machine({ lifecycle: creating, recordedDigest: tag.digest }),
    }),
    "remove",
  ],
  [
    "stopped by a crash after it was woken in place: what sleeps is old",
    seen({ vm: stopped, tag, machine: machine({ lifecycle: creating, recordedDigest: tag.digest }) }),
    "start",
  ],
  [
    "a new attempt after a failure",
    seen({ vm: running, machine: machine({ lifecycle: failed }) }),
    "announce",
  ],
  ["static", seen({ machine: machine({ vmId: "x", ip: "10.0.0.1" }, { managed: false }) }), "adoptStatic"],
  ["static without address", seen({ machine: machine({ vmId: "x" }, { managed: false }) }), "refuse"],
];

const asleep = (more: Parameters<typeof machine>[0]) => machine({ sleep: true, ...more });

const fallAsleep: readonly (readonly [string, Seen, string])[] = [
  ["first it is said", seen({ vm: running, machine: asleep({ lifecycle: ready }) }), "announce"],
  ["then saved", seen({ vm: running, machine: asleep({ lifecycle: hibernating }) }), "save"],
  [
    "a copy of a VM that runs is old",
    seen({ vm: running, local: copy, machine: asleep({ lifecycle: hibernating }) }),
    "dropLocal",
  ],
  [
    "a copy of another VM is old",
    seen({ vm: paused, local: { id: "S0", vmId: "VM0" }, machine: asleep({ lifecycle: hibernating }) }),
    "dropLocal",
  ],
  [
    "an engine that cannot freeze: a copy of an earlier attempt is old",
    seen({ freezes: false, vm: running, local: copy, machine: asleep({ lifecycle: hibernating }) }),
    "dropLocal",
  ],
  [
    "an engine that cannot freeze: a copy made just now is taken",
    seen({
      freezes: false,
      savedNow: copy.id,
      vm: running,
      local: copy,
      machine: asleep({ lifecycle: hibernating }),
    }),
    "push",
  ],
  ["then pushed", seen({ vm: paused, local: copy, machine: asleep({ lifecycle: hibernating }) }), "push"],
  [
    "an older tag is no proof",
    seen({
      vm: paused,
      local: copy,
      tag: { ...tag, snapshotId: "S0" },
      machine: asleep({ lifecycle: hibernating }),
    }),
    "push",
  ],
  [
    "then recorded",
    seen({ vm: paused, local: copy, tag, machine: asleep({ lifecycle: hibernating }) }),
    "record",
  ],
  [
    "then the id goes",
    seen({
      vm: paused,
      local: copy,
      tag,
      machine: asleep({ lifecycle: hibernating, recordedDigest: tag.digest, vmId: "VM1" }),
    }),
    "clearId",
  ],
  [
    "then the VM",
    seen({
      vm: paused,
      local: copy,
      tag,
      machine: asleep({ lifecycle: hibernating, recordedDigest: tag.digest }),
    }),
    "remove",
  ],
  [
    "a crash before the push: it boots again",
    seen({ vm: stopped, local: copy, machine: asleep({ lifecycle: hibernating }) }),
    "start",
  ],
  [
    "a crash after the push: what was pushed is where it stopped",
    seen({ vm: stopped, local: copy, tag, machine: asleep({ lifecycle: hibernating }) }),
    "record",
  ],
  [
    "a crash after the record: only the VM is left to go",
    seen({
      vm: stopped,
      local: copy,
      tag,
      machine: asleep({ lifecycle: hibernating, recordedDigest: tag.digest }),
    }),
    "remove",
  ],
  [
    "a crash of an engine that cannot freeze: it went on after the copy",
    seen({ freezes: false, vm: stopped, local: copy, tag, machine: asleep({ lifecycle: hibernating }) }),
    "start",
  ],
  [
    "then it is sealed",
    seen({ tag, machine: asleep({ lifecycle: hibernating, recordedDigest: tag.digest }) }),
    "seal",
  ],
  [
    "then published",
    seen({
      tag,
      sealedDigest: tag.digest,
      machine: asleep({ lifecycle: hibernating, recordedDigest: tag.digest }),
    }),
    "announce",
  ],
  [
    "and that is all",
    seen({ tag: "unasked", machine: asleep({ lifecycle: hibernated, recordedDigest: tag.digest }) }),
    "settled",
  ],
  ["no registry", seen({ hasRegistry: false, vm: running, machine: asleep({}) }), "refuse"],
  ["recorded, but the tag is gone", seen({ machine: asleep({ recordedDigest: tag.digest }) }), "refuse"],
];

for (const [name, world, step] of [...bringUp, ...fallAsleep])
  test(`${name}: ${step}`, () => assert.equal(planMachine(world).kind, step));

const dying = (more: Partial<SeenDeletion>): SeenDeletion => ({
  ...seen({ machine: machine({ lifecycle: ready, snapshotOnDelete: true }) }),
  disrupted: false,
  latestSnapshotId: undefined,
  stale: undefined,
  ...more,
});

const deletions: readonly (readonly [string, SeenDeletion, string])[] = [
  ["somebody else's machine", dying({ vm: running, machine: machine({}, { managed: false }) }), "settled"],
  ["saved first", dying({ vm: running }), "save"],
  ["pushed before it goes", dying({ vm: paused, local: copy }), "pushLatest"],
  ["an older latest is no proof", dying({ vm: paused, local: copy, latestSnapshotId: "S0" }), "pushLatest"],
  ["gone when latest is it", dying({ vm: paused, local: copy, latestSnapshotId: "S1" }), "remove"],
  [
    "the sleep it came from goes first",
    dying({ vm: paused, local: copy, latestSnapshotId: "S1", stale: tag }),
    "dropTag",
  ],
  [
    "but not when it never was ready",
    dying({
      vm: paused,
      local: copy,
      latestSnapshotId: "S1",
      stale: tag,
      machine: machine({ lifecycle: creating, snapshotOnDelete: true }),
    }),
    "remove",
  ],
  ["policy never", dying({ vm: running, machine: machine({ lifecycle: ready }) }), "remove"],
  ["the local copy goes last", dying({ local: copy }), "dropLocal"],
  ["unless it is to be kept", dying({ local: copy, machine: machine({ keepSnapshot: true }) }), "settled"],
  [
    "disrupted",
    dying({ vm: running, disrupted: true, machine: machine({ lifecycle: hibernating }) }),
    "save",
  ],
  [
    "disrupted, and no place to sleep in",
    dying({ vm: running, disrupted: true, hasRegistry: false }),
    "refuse",
  ],
  ["disrupted, nothing left", dying({ disrupted: true }), "settled"],
  [
    "asleep already",
    dying({
      tag: "unasked",
      machine: machine({ sleep: true, lifecycle: hibernated, recordedDigest: tag.digest }),
    }),
    "settled",
  ],
];

for (const [name, world, step] of deletions)
  test(`deletion, ${name}: ${step}`, () => assert.equal(planDeletion(world).kind, step));
