/** What is planned for a set that comes up, sleeps, or goes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, setAnnotation } from "@cocoon/contract";
import {
  digest,
  lines,
  memory,
  now,
  otherDigest,
  buildObserved,
  type ObservedInput,
} from "../testing/fixtures.ts";
import { table } from "../testing/plan-table.ts";
import { planSet } from "./plan.ts";
import { computeStatus } from "./status.ts";

const finalizers = { finalizers: [] };
const suspend = { suspend: true };
const release = { suspend: true, hibernatePolicy: "release" };
const one = { replicas: 1 };
const two = { replicas: 2 };
const asleep = { state: "hibernated", digest };
const box = { toolboxes: [{ name: "box", image: "x" }] };

table("coming up", [
  {
    row: "a new set gets its finalizer before its main agent",
    metadata: finalizers,
    does: ["addFinalizer", "create a-0"],
    phase: "Pending",
  },
  {
    row: "a pinned main agent is bound by affinity",
    spec: { nodeName: "n2" },
    does: ["create a-0 required n2"],
  },
  { row: "toolboxes do not wait for the main agent", spec: box, does: ["create a-0", "create a-box"] },
  { row: "sub-agents wait for it", agent: two, pods: { 0: "pending" }, does: [], phase: "Pending" },
  {
    row: "sub-agents are forked on its node",
    agent: two,
    pods: { 0: { node: "n7" } },
    does: ["create a-1 required n7", "create a-2 required n7"],
    phase: "Scaling",
  },
  {
    row: "all ready is Running",
    agent: two,
    pods: { 0: "ready", 1: "ready", 2: "ready" },
    does: [],
    phase: "Running",
  },
  { row: "a pod that is on its way out is waited for", pods: { 0: "leaving" }, does: [], phase: "Pending" },
  {
    row: "a name that is taken creates nothing",
    taken: { "a-0": "taken" },
    does: [],
    problem: "NameConflict",
  },
  {
    row: "a source without grant creates nothing",
    sourceProblem: "no grant",
    does: [],
    problem: "SourceNotGranted",
  },
  { row: "paused does nothing", spec: { paused: true }, agent: two, does: [], phase: "Pending" },
  {
    row: "a set whose time is over is deleted",
    spec: { ttl: "1h" },
    pods: { 0: "ready" },
    does: ["deleteSet"],
  },
  {
    row: "a set that expires by deletion is deleted",
    spec: { expire: { at: "2000-01-01T00:00:00Z", action: "Delete" } },
    pods: { 0: "ready" },
    does: ["deleteSet"],
  },
  {
    row: "a set that expires by suspension goes to sleep",
    spec: { expire: { at: "2000-01-01T00:00:00Z", action: "Suspend" } },
    pods: { 0: "ready" },
    does: ["sleep a-0 (suspend)"],
    phase: "Suspending",
  },
  {
    row: "a set whose expiry lies ahead stays as it is",
    spec: { expire: { at: "2999-01-01T00:00:00Z", action: "Delete" } },
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
  },
  {
    row: "two toolboxes of one name create nothing",
    spec: {
      toolboxes: [
        { name: "x", image: "i" },
        { name: "x", image: "i" },
      ],
    },
    does: [],
    problem: "InvalidNames",
  },
  {
    row: "another pod that calls itself main is reported",
    pods: {
      0: "ready",
      5: { labels: { "cocoonset.cocoonstack.io/role": "main", "cocoonset.cocoonstack.io/slot": "0" } },
    },
    does: [],
    problem: "DuplicateMain",
  },
]);

table("suspend, pods kept", [
  {
    row: "every managed machine gets the key",
    spec: { ...suspend, ...box },
    agent: { replicas: 1 },
    pods: { 0: "ready", 1: "ready", box: "ready" },
    does: ["sleep a-0 (suspend)", "sleep a-1 (suspend)", "sleep a-box (suspend)"],
    phase: "Suspending",
  },
  {
    row: "a static machine is left alone",
    spec: { ...suspend, toolboxes: [{ name: "box", mode: "static", staticIP: "10.0.0.9", staticVMID: "q" }] },
    pods: { 0: "asleep", box: "ready" },
    tags: { 0: digest },
    does: [],
    phase: "Suspended",
  },
  {
    row: "a machine on its way to sleep is waited for",
    spec: suspend,
    pods: { 0: "dozing" },
    does: [],
    phase: "Suspending",
  },
  {
    row: "a fork that was not made before its source slept goes",
    spec: suspend,
    agent: one,
    pods: { 0: "asleep", 1: "pending" },
    tags: { 0: digest },
    does: ["delete a-1"],
    phase: "Suspended",
  },
  {
    row: "a main agent that waits for a node that is not wanted any more goes",
    spec: { ...suspend, nodeName: "n2" },
    pods: { 0: { how: "unschedulable", affinityTo: "n9" } },
    does: ["delete a-0"],
  },
  {
    row: "what says that it sleeps is proven",
    spec: suspend,
    pods: { 0: "asleep" },
    does: [],
    lookups: ["a-0"],
  },
  {
    row: "proven is Suspended",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: digest },
    does: [],
    phase: "Suspended",
  },
  {
    row: "what was proven is not asked again",
    spec: suspend,
    pods: { 0: "asleep" },
    status: memory("Suspended", { 0: asleep }),
    does: [],
    phase: "Suspended",
  },
  {
    row: "an older proof does not stand for a newer sleep",
    spec: suspend,
    pods: { 0: { how: "asleep", recorded: otherDigest } },
    status: memory("Suspended", { 0: asleep }),
    does: [],
    lookups: ["a-0"],
  },
  {
    row: "no copy is no sleep",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: null },
    does: [],
    phase: "Suspending",
    problem: "SnapshotMissing",
  },
  {
    row: "another copy is no proof",
    spec: suspend,
    pods: { 0: { how: "asleep", recorded: otherDigest } },
    tags: { 0: digest },
    does: [],
    phase: "Suspending",
    problem: "SnapshotMismatch",
  },
  {
    row: "a registry that does not answer proves nothing",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: new Error("down") },
    does: [],
    phase: "Suspending",
    problem: "RegistryUnavailable",
  },
  {
    row: "hibernated for an older request is not enough",
    spec: suspend,
    pods: { 0: { how: "asleep", annotations: { [annotation.lifecycleObservedGeneration]: "1" } } },
    does: [],
    phase: "Suspending",
  },
  {
    row: "a failed machine does not hold the others up",
    spec: suspend,
    agent: { replicas: 1 },
    pods: { 0: "asleep", 1: "failed" },
    tags: { 0: digest },
    does: ["sleep a-1 (suspend)"],
    phase: "Suspended",
  },
  {
    row: "a set that was created suspended boots first, with the key",
    spec: suspend,
    tags: { 0: null },
    does: ["create a-0 asleep(suspend)"],
    phase: "Suspending",
  },
  {
    row: "a main agent that is hibernated without a pod stays without",
    spec: suspend,
    tags: { 0: digest },
    does: [],
    phase: "Suspended",
  },
  {
    row: "a copy that its machine woke from, and went on, is none to sleep in",
    spec: suspend,
    status: memory("Running", { 0: { state: "ready", digest } }),
    tags: { 0: digest },
    does: ["release a-0", "create a-0 asleep(suspend)"],
  },
  {
    row: "a sleeping one whose copy vanished is not replaced",
    spec: suspend,
    status: memory("Suspended", { 0: asleep }),
    does: [],
    phase: "Suspended",
  },
  {
    row: "nothing else is looked at meanwhile",
    spec: suspend,
    agent: two,
    pods: { 0: "asleep" },
    tags: { 0: digest },
    does: [],
    phase: "Suspended",
  },
  {
    row: "spare machines are not put to sleep but go",
    spec: { ...suspend, warmPool: { size: 1 } },
    pods: { 0: "asleep", 1: "ready" },
    tags: { 0: digest },
    does: ["delete a-1"],
    phase: "Suspended",
  },
  {
    row: "a suspension that takes too long is reported",
    spec: suspend,
    pods: { 0: "dozing" },
    status: memory("Suspending", {}, [
      {
        type: "Suspended",
        status: "Unknown",
        reason: "X",
        message: "",
        lastTransitionTime: "2026-06-01T11:00:00Z",
      },
    ]),
    does: [],
    problem: "SuspendTimedOut",
  },
]);

table("suspend, pods released", [
  { row: "no pods is Suspended, also before the first boot", spec: release, does: [], phase: "Suspended" },
  {
    row: "the key first",
    spec: release,
    pods: { 0: "ready" },
    does: ["sleep a-0 (suspend)"],
    phase: "Suspending",
  },
  {
    row: "names and node, then the digest, then the pods",
    spec: release,
    pods: { 0: "asleep" },
    tags: { 0: digest },
    does: [
      "note delete-vm-names hibernated-on-node",
      "persistStatus",
      "change a-0 keep-snapshot-on-delete",
      "delete a-0",
      "count slotReleased",
    ],
    phase: "Suspending",
  },
  {
    row: "a failed one keeps its pod",
    spec: release,
    pods: { 0: "failed" },
    does: ["sleep a-0 (suspend)"],
    phase: "Suspended",
  },
  {
    row: "pods on their way out are Suspended",
    spec: release,
    pods: { 0: "leaving" },
    status: memory("Suspending", { 0: asleep }),
    does: [],
    phase: "Suspended",
  },
]);

const idle = { idle: { after: "10m" } };

table("schedule and idleness", [
  {
    row: "the latest entry that fired decides: asleep",
    spec: {
      schedule: [
        { cron: "0 11 * * *", action: "Hibernate" },
        { cron: "0 8 * * *", action: "Wake" },
      ],
    },
    pods: { 0: "ready" },
    does: ["sleep a-0 (suspend)"],
  },
  {
    row: "the latest entry that fired decides: awake",
    spec: {
      schedule: [
        { cron: "0 11 * * *", action: "Wake" },
        { cron: "0 8 * * *", action: "Hibernate" },
      ],
    },
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
  },
  {
    row: "an entry that fired before the set was born says nothing",
    metadata: { creationTimestamp: "2026-06-01T11:30:00Z" },
    spec: { schedule: [{ cron: "0 11 * * *", action: "Hibernate" }] },
    pods: { 0: "ready" },
    does: [],
  },
  {
    row: "idle for long enough",
    spec: idle,
    pods: { 0: { annotations: { [annotation.idleSince]: "2026-06-01T11:40:00Z" } } },
    does: ["sleep a-0 (idle)"],
  },
  {
    row: "idle for a while",
    spec: idle,
    pods: { 0: { annotations: { [annotation.idleSince]: "2026-06-01T11:55:00Z" } } },
    does: [],
  },
  {
    row: "it sleeps on",
    spec: idle,
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "idle" } } },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "until a client requests it",
    spec: idle,
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "idle" } } },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake" } },
    does: ["persistStatus", "wake a-0"],
  },
]);

const deleting = { metadata: { deletionTimestamp: "2026-06-01T11:59:00Z" } };

table("retention", [
  {
    row: "what is no longer kept is looked for, where that is asked for",
    spec: { retention: { after: "24h", keep: 2 } },
    pods: { 0: "ready" },
    does: ["expire 1 keep 2"],
  },
]);

table("deletion", [
  {
    row: "names first, then the pods",
    ...deleting,
    agent: one,
    pods: { 0: "ready", 1: "ready" },
    does: ["note delete-vm-names", "delete a-0", "delete a-1"],
  },
  {
    row: "pods on their way out are waited for",
    ...deleting,
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0" },
    pods: { 0: "leaving" },
    does: [],
  },
  {
    row: "always: every copy is kept",
    ...deleting,
    spec: box,
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-1,vk-lab-a-box" },
    does: ["settle a-0+ a-1+ a-box+", "removeFinalizer"],
  },
  {
    row: "main-only: by the exact slot",
    ...deleting,
    spec: { snapshotPolicy: "main-only" },
    annotations: {
      [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-1,vk-lab-a-box-0",
      [setAnnotation.vmNamesUid]: "set-uid",
    },
    does: ["settle a-0+ a-1- a-box-0-", "removeFinalizer"],
  },
  {
    row: "never: none",
    ...deleting,
    spec: { snapshotPolicy: "never" },
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0" },
    does: ["settle a-0-", "removeFinalizer"],
  },
  {
    row: "purge",
    ...deleting,
    spec: { deletionPolicy: "Purge" },
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0" },
    does: ["settle a-0+ purge", "removeFinalizer"],
  },
  {
    row: "machines that are only remembered count",
    ...deleting,
    status: memory("Suspended", { 0: asleep }),
    does: ["settle a-0+", "removeFinalizer"],
  },
]);

test("a plan is a function of what was seen", () => {
  const input: ObservedInput = { agent: two, pods: { 0: "ready", 1: "failed" }, now };
  assert.deepEqual(lines(planSet(buildObserved(input))), lines(planSet(buildObserved(input))));
});

test("a sleeping copy that was found after a wake is remembered as sleep, not as leftover", () => {
  const observed = buildObserved({
    spec: suspend,
    status: memory("Running", { 0: { state: "ready" } }),
    tags: { 0: digest },
  });
  const [main] = computeStatus(observed, planSet(observed)).agents ?? [];
  assert.deepEqual([main?.lifecycleState, main?.snapshotDigest], ["hibernated", digest]);
});

test("the status says that a machine is being woken before it is, and no longer that it sleeps", () => {
  const sleeping = memory("Suspended", { 0: { state: "hibernated", digest } });
  const readState = (input: ObservedInput) => {
    const observed = buildObserved(input);
    const [main] = computeStatus(observed, planSet(observed)).agents ?? [];
    return [main?.lifecycleState, main?.snapshotDigest];
  };
  assert.deepEqual(readState({ status: sleeping, pods: { 0: "asleep" } }), ["creating", digest]);
  assert.deepEqual(readState({ status: sleeping, tags: { 0: digest } }), ["creating", digest]);
  const suspended = { spec: { suspend: true }, status: sleeping, pods: { 0: "asleep" as const } };
  assert.deepEqual(readState(suspended), ["hibernated", digest]);
  const waking = memory("Waking", { 0: { state: "creating", digest } });
  const unknown = { status: waking, tags: { 0: new Error("down") } };
  assert.deepEqual(readState(unknown), ["creating", digest], "the lookup was not answered");
  const another = { status: waking, tags: { 0: otherDigest } };
  assert.deepEqual(readState(another), ["creating", digest], "what is there is not what it slept in");
});
