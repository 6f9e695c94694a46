/** What is planned for a set, row by row: (what was seen) -> (what is done). */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, setAnnotation } from "@cocoon/contract";
import {
  digest,
  lines,
  memory,
  migrating,
  now,
  otherDigest,
  worldOf,
  type WorldInput,
} from "../testing/fixtures.ts";
import { planSet } from "./plan.ts";

interface Row extends WorldInput {
  readonly row: string;
  readonly does: readonly string[];
  readonly phase?: string;
  readonly asks?: readonly string[];
  readonly trouble?: string;
}

function table(name: string, rows: readonly Row[]): void {
  suite(name, () => {
    for (const { row, does, phase, asks, trouble, ...input } of rows)
      test(row, () => {
        const plan = planSet(worldOf(input));
        assert.deepEqual(
          plan.asks.map((each) => each.replace("vk-lab-", "")),
          asks ?? [],
          "questions",
        );
        if (asks === undefined) assert.deepEqual(lines(plan), does);
        if (phase !== undefined) assert.equal(plan.phase, phase);
        assert.deepEqual([...new Set(plan.troubles.map(({ reason }) => reason))], trouble ? [trouble] : []);
      });
  });
}

const finalizers = { finalizers: [] };
const suspend = { suspend: true };
const release = { suspend: true, hibernatePolicy: "release" };
const two = { replicas: 2 };
const awake = { state: "ready" };
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
    trouble: "NameConflict",
  },
  {
    row: "a source without grant creates nothing",
    sourceTrouble: "no grant",
    does: [],
    trouble: "SourceNotGranted",
  },
  { row: "paused does nothing", spec: { paused: true }, agent: two, does: [], phase: "Pending" },
  {
    row: "a set whose time is over is deleted",
    spec: { ttl: "1h" },
    pods: { 0: "ready" },
    does: ["deleteSet"],
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
    trouble: "InvalidNames",
  },
  {
    row: "another pod that calls itself main is reported",
    pods: {
      0: "ready",
      5: { labels: { "cocoonset.cocoonstack.io/role": "main", "cocoonset.cocoonstack.io/slot": "0" } },
    },
    does: [],
    trouble: "DuplicateMain",
  },
]);

table("suspend, seats kept", [
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
    row: "what says that it sleeps is proven",
    spec: suspend,
    pods: { 0: "asleep" },
    does: [],
    asks: ["a-0"],
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
    asks: ["a-0"],
  },
  {
    row: "no copy is no sleep",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: null },
    does: [],
    phase: "Suspending",
    trouble: "SnapshotMissing",
  },
  {
    row: "another copy is no proof",
    spec: suspend,
    pods: { 0: { how: "asleep", recorded: otherDigest } },
    tags: { 0: digest },
    does: [],
    phase: "Suspending",
    trouble: "SnapshotMismatch",
  },
  {
    row: "a registry that does not answer proves nothing",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: new Error("down") },
    does: [],
    phase: "Suspending",
    trouble: "RegistryUnavailable",
  },
  {
    row: "hibernated for an older wish is not enough",
    spec: suspend,
    pods: { 0: { how: "asleep", annotations: { [annotation.lifecycleObservedGeneration]: "1" } } },
    does: [],
    phase: "Suspending",
  },
  {
    row: "a failed machine holds nobody up",
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
    row: "a main agent that sleeps without a seat stays without",
    spec: suspend,
    tags: { 0: digest },
    does: [],
    phase: "Suspended",
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
    trouble: "SuspendTimedOut",
  },
]);

table("suspend, seats given up", [
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
      "count seatReleased",
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

table("waking", [
  {
    row: "a kept seat loses the key",
    pods: { 0: "asleep" },
    status: memory("Suspended", { 0: asleep }),
    does: ["wake a-0"],
    phase: "Running",
  },
  {
    row: "a released seat: the copy is looked up",
    status: memory("Suspended", { 0: asleep }),
    does: [],
    asks: ["a-0"],
  },
  {
    row: "a released seat: Waking is written before the pod, near the old node",
    status: memory("Suspended", { 0: asleep }),
    annotations: { [setAnnotation.hibernatedOnNode]: "n3" },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore preferred n3"],
    phase: "Waking",
  },
  {
    row: "no copy, and it never slept: a fresh boot",
    status: memory("Suspended"),
    tags: { 0: null },
    does: ["create a-0"],
    phase: "Waking",
  },
  {
    row: "no copy of what slept: nothing is booted in its place",
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: null },
    does: [],
    trouble: "SnapshotMissing",
  },
  {
    row: "unless somebody says so",
    status: memory("Suspended", { 0: asleep }),
    annotations: { [setAnnotation.bootFresh]: "a-0" },
    tags: { 0: null },
    does: ["create a-0"],
  },
  {
    row: "a registry that does not answer creates nothing",
    status: memory("Suspended", { 0: asleep }),
    tags: { 0: new Error("down") },
    does: [],
    trouble: "RegistryUnavailable",
  },
  {
    row: "on its way",
    status: memory("Waking", { 0: asleep }),
    pods: { 0: { how: "waking", restored: true } },
    does: [],
    phase: "Waking",
  },
  {
    row: "no room",
    status: memory("Waking", { 0: asleep }),
    pods: { 0: "unschedulable" },
    does: ["count wakeUnschedulable"],
    phase: "Waking",
    trouble: "WakeNoCapacity",
  },
  {
    row: "no room is counted once",
    status: memory("Waking", { 0: asleep }, [
      {
        type: "Degraded",
        status: "True",
        reason: "WakeNoCapacity",
        message: "",
        lastTransitionTime: "2026-06-01T11:00:00Z",
      },
    ]),
    pods: { 0: "unschedulable" },
    does: [],
    trouble: "WakeNoCapacity",
  },
  {
    row: "back: the hint goes, the copy stays for a while",
    status: memory("Waking", { 0: asleep }),
    annotations: { [setAnnotation.hibernatedOnNode]: "n1" },
    pods: { 0: "ready" },
    does: ["note hibernated-on-node", "count wake"],
    phase: "Running",
  },
  {
    row: "back for a while: the copy is looked up",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z" } },
    does: [],
    asks: ["a-0"],
  },
  {
    row: "back for a while: dropped by its digest",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z" } },
    tags: { 0: digest },
    does: ["dropSleeping a-0"],
    phase: "Running",
  },
  {
    row: "a newer copy is never dropped",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: { 0: { readyAt: "2026-06-01T11:00:00Z" } },
    tags: { 0: otherDigest },
    does: [],
    phase: "Running",
  },
  {
    row: "a machine that is not ready for the newest wish keeps its copy",
    status: memory("Running", { 0: { ...awake, digest } }),
    pods: {
      0: { readyAt: "2026-06-01T11:00:00Z", annotations: { [annotation.lifecycleObservedGeneration]: "1" } },
    },
    does: [],
  },
  {
    row: "a pod that vanished after its wake does not go back to the old copy",
    status: memory("Running", { 0: { ...awake, digest } }),
    tags: { 0: digest },
    does: ["dropSleeping a-0", "create a-0"],
  },
  {
    row: "a pod that vanished after a newer sleep is restored",
    status: memory("Running", { 0: { ...awake, digest } }),
    tags: { 0: otherDigest },
    does: ["persistStatus", "create a-0 restore"],
  },
]);

table("hibernations", [
  {
    row: "a wish to sleep sets the key",
    pods: { 0: "ready" },
    hibernations: { 0: {} },
    does: ["sleep a-0 (hibernation)"],
  },
  {
    row: "a wish that was fulfilled changes nothing",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    does: [],
    phase: "Running",
  },
  {
    row: "a wish to wake removes it",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake", status: { phase: "Hibernated" } } },
    does: ["wake a-0"],
  },
  {
    row: "a wake that was done is not done again",
    spec: suspend,
    pods: { 0: "asleep" },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake", status: { phase: "Active", observedGeneration: 1 } } },
    does: [],
    phase: "Suspended",
  },
  {
    row: "suspension outranks a wish to wake",
    spec: suspend,
    pods: { 0: "ready" },
    hibernations: { 0: { desire: "Wake" } },
    does: ["sleep a-0 (suspend)"],
  },
  {
    row: "a sleep that began is finished before a wake",
    pods: { 0: { how: "dozing", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    hibernations: { 0: { desire: "Wake", status: { phase: "Hibernating" } } },
    does: [],
  },
  {
    row: "a machine whose hibernation was deleted sleeps on",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "a key set by hand is left",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: undefined } } },
    tags: { 0: digest },
    does: [],
    phase: "Running",
  },
  {
    row: "one that a set of the Go operator left is removed",
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: undefined } } },
    status: memory("Suspended", { 0: asleep }),
    does: ["wake a-0"],
  },
  {
    row: "a pod recreated under a hibernation sleeps on from its copy",
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore asleep(hibernation)"],
  },
  {
    row: "one recreated while it wakes is restored",
    hibernations: { 0: { desire: "Wake", status: { phase: "Waking" } } },
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore"],
  },
]);

const n2 = { nodes: { n2: {} }, spec: { nodeName: "n2" } };
const sleepsForMove = { how: "asleep" as const, annotations: { [annotation.hibernateReason]: "migration" } };

table("migration", [
  {
    row: "on the wanted node nothing happens",
    spec: { nodeName: "n1" },
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
  },
  {
    row: "no such node",
    spec: { nodeName: "n2" },
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
    trouble: "MigrationRefused",
  },
  {
    row: "a node that is not ready",
    spec: { nodeName: "n2" },
    nodes: { n2: { ready: false } },
    pods: { 0: "ready" },
    does: [],
    trouble: "MigrationRefused",
  },
  {
    row: "a node of another pool",
    spec: { nodeName: "n2" },
    nodes: { n2: { pool: "x" } },
    pods: { 0: "ready" },
    does: [],
    trouble: "MigrationRefused",
  },
  {
    row: "a node without room",
    spec: { nodeName: "n2" },
    nodes: { n2: { lacks: () => "full" } },
    pods: { 0: "ready" },
    does: [],
    trouble: "MigrationRefused",
  },
  {
    row: "noted and written before the key",
    ...n2,
    pods: { 0: "ready" },
    does: ["note migration", "persistStatus", "tell Migrating", "sleep a-0 (migration)"],
    phase: "Migrating",
  },
  {
    row: "waiting for the sleep",
    ...n2,
    annotations: migrating("n2"),
    pods: { 0: { ...sleepsForMove, how: "dozing" } },
    does: [],
    phase: "Migrating",
  },
  {
    row: "asleep: the copy is looked up",
    ...n2,
    annotations: migrating("n2"),
    pods: { 0: sleepsForMove },
    does: [],
    asks: ["a-0"],
  },
  {
    row: "proven: persisted, then the old pod goes",
    ...n2,
    annotations: migrating("n2"),
    pods: { 0: sleepsForMove },
    tags: { 0: digest },
    does: ["persistStatus", "delete a-0"],
    phase: "Migrating",
  },
  {
    row: "no copy: the old pod stays",
    ...n2,
    annotations: migrating("n2"),
    pods: { 0: sleepsForMove },
    tags: { 0: null },
    does: [],
    phase: "Migrating",
    trouble: "SnapshotMissing",
  },
  {
    row: "gone: restored on the target",
    ...n2,
    annotations: migrating("n2"),
    status: memory("Migrating", { 0: asleep }),
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore required n2"],
    phase: "Migrating",
  },
  {
    row: "gone, and the pin was removed: restored anywhere",
    annotations: migrating("n2"),
    status: memory("Migrating", { 0: asleep }),
    tags: { 0: digest },
    does: ["note migration", "persistStatus", "create a-0 restore"],
    phase: "Migrating",
  },
  {
    row: "on its way up",
    ...n2,
    annotations: migrating("n2"),
    status: memory("Migrating", { 0: asleep }),
    pods: { 0: { how: "waking", node: "n2", restored: true } },
    does: [],
    phase: "Migrating",
  },
  {
    row: "there: done, the copy stays for a while",
    ...n2,
    annotations: migrating("n2"),
    status: memory("Migrating", { 0: asleep }),
    pods: { 0: { node: "n2", restored: true } },
    does: ["note migration", "tell Migrated"],
    phase: "Running",
  },
  {
    row: "called off while it sleeps: woken in place",
    annotations: migrating("n2"),
    pods: { 0: sleepsForMove },
    tags: { 0: digest },
    does: ["note migration", "wake a-0"],
    phase: "Migrating",
  },
  {
    row: "does not go to sleep in time: stays",
    ...n2,
    annotations: migrating("n2", { startedAt: "2026-06-01T11:00:00Z" }),
    pods: { 0: { ...sleepsForMove, how: "dozing" } },
    does: ["note migration", "wake a-0"],
    trouble: "MigrationReturned",
  },
  {
    row: "does not come up in time: goes back",
    ...n2,
    annotations: migrating("n2", { startedAt: "2026-06-01T11:00:00Z" }),
    status: memory("Migrating", { 0: asleep }),
    pods: { 0: { how: "unschedulable", affinityTo: "n2" } },
    does: ["note migration", "delete a-0"],
    trouble: "MigrationReturned",
  },
  {
    row: "on the way back: bound to the old node",
    ...n2,
    annotations: migrating("n2", { returned: 2 }),
    status: memory("Migrating", { 0: asleep }),
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore required n1"],
    trouble: "MigrationReturned",
  },
  {
    row: "back: not tried again",
    ...n2,
    annotations: migrating("n2", { returned: 2 }),
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
    trouble: "MigrationReturned",
  },
  {
    row: "until somebody names another node",
    spec: { nodeName: "n3" },
    nodes: { n3: {} },
    metadata: { generation: 3 },
    annotations: migrating("n2", { returned: 2 }),
    pods: { 0: "ready" },
    does: ["note migration"],
  },
  {
    row: "a pod that waits for another node than wanted is replaced",
    ...n2,
    pods: { 0: { how: "unschedulable", affinityTo: "n9" } },
    does: ["delete a-0"],
  },
  {
    row: "a machine that sleeps for a hibernation is not moved",
    ...n2,
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 0: digest },
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    does: [],
    phase: "Running",
  },
]);

const drifted = { annotations: { [annotation.templateHash]: "old" } };
const history = (count: number, at: string) => ({
  [setAnnotation.rebuildHistory]: JSON.stringify({ 1: { count, lastDeleted: at } }),
});
const rebuild = [
  "note rebuild-history toolbox-rebuilds",
  "delete a-1",
  "count rebuild",
  "tell SubAgentRebuilding",
];
const one = { replicas: 1 };

table("drift", [
  {
    row: "an advisory change is told, not replaced",
    spec: { snapshotPolicy: "never" },
    pods: { 0: { annotations: { [annotation.snapshotPolicy]: "always" } } },
    does: ["change a-0 snapshot-policy"],
    phase: "Running",
  },
  { row: "main first, one at a time", agent: one, pods: { 0: drifted, 1: drifted }, does: ["delete a-0"] },
  {
    row: "two at a time, where allowed",
    spec: { rollout: { maxUnavailable: 2 } },
    agent: one,
    pods: { 0: drifted, 1: drifted },
    does: ["delete a-0", "delete a-1"],
  },
  {
    row: "nothing while another is missing",
    agent: two,
    pods: { 0: "ready", 1: drifted, 2: "leaving" },
    does: [],
  },
  {
    row: "one that is not ready costs nothing",
    agent: two,
    pods: { 0: "ready", 1: { ...drifted, how: "pending" }, 2: drifted },
    does: ["delete a-1"],
  },
  {
    row: "not where people do it themselves",
    spec: { rollout: { strategy: "OnDelete" } },
    pods: { 0: drifted },
    does: [],
    phase: "Running",
  },
  {
    row: "not a machine that sleeps",
    pods: {
      0: {
        how: "asleep",
        annotations: { ...drifted.annotations, [annotation.hibernateReason]: "hibernation" },
      },
    },
    tags: { 0: digest },
    does: [],
  },
  {
    row: "a pod of another operator is compared by what the spec says",
    pods: { 0: { annotations: { [annotation.templateHash]: undefined, [annotation.image]: "base:v0" } } },
    does: ["delete a-0"],
  },
  {
    row: "and adopted when it fits",
    pods: { 0: { annotations: { [annotation.templateHash]: undefined } } },
    does: [],
    phase: "Running",
  },
]);

table("failure", [
  {
    row: "a failed main agent is left to people",
    pods: { 0: "failed" },
    does: [],
    phase: "Failed",
    trouble: "PodLifecycleFailed",
  },
  {
    row: "one whose pod failed too",
    pods: { 0: "gone-bad" },
    does: [],
    phase: "Failed",
    trouble: "MainAgentFailed",
  },
  {
    row: "a failure of an older wish does not count",
    pods: { 0: { how: "failed", annotations: { [annotation.lifecycleObservedGeneration]: "1" } } },
    does: [],
    phase: "Pending",
  },
  {
    row: "a failed main agent that drifted is replaced",
    pods: { 0: { how: "failed", ...drifted } },
    does: ["delete a-0", "count rebuild", "tell SubAgentRebuilding"],
    trouble: "PodLifecycleFailed",
  },
  {
    row: "one that may be rebuilt is",
    spec: { rebuild: { main: "Image" } },
    pods: { 0: "failed" },
    does: ["note rebuild-history toolbox-rebuilds", "delete a-0", "count rebuild", "tell SubAgentRebuilding"],
    trouble: "PodLifecycleFailed",
  },
  {
    row: "it does not hold up a suspension",
    spec: suspend,
    pods: { 0: "failed" },
    does: ["sleep a-0 (suspend)"],
    phase: "Suspended",
  },
  {
    row: "a sub-agent is rebuilt at once",
    agent: one,
    pods: { 0: "ready", 1: "failed" },
    does: rebuild,
    phase: "Scaling",
  },
  {
    row: "then after a second",
    agent: one,
    annotations: history(1, "2026-06-01T11:59:59.500Z"),
    pods: { 0: "ready", 1: "failed" },
    does: [],
  },
  {
    row: "then after five",
    agent: one,
    annotations: history(2, "2026-06-01T11:59:54Z"),
    pods: { 0: "ready", 1: "failed" },
    does: rebuild,
  },
  {
    row: "then after thirty",
    agent: one,
    annotations: history(3, "2026-06-01T11:59:54Z"),
    pods: { 0: "ready", 1: "failed" },
    does: [],
  },
  {
    row: "then it is left",
    agent: one,
    annotations: history(4, "2026-06-01T11:00:00Z"),
    pods: { 0: "ready", 1: "failed" },
    does: [
      "note rebuild-history toolbox-rebuilds",
      "change a-1 dead-letter",
      "count deadLetter",
      "tell SubAgentDeadLetter",
    ],
  },
  {
    row: "what was left stays",
    agent: one,
    annotations: history(5, "2026-06-01T11:00:00Z"),
    pods: { 0: "ready", 1: { how: "failed", annotations: { [annotation.deadLetter]: "true" } } },
    does: [],
    trouble: "DeadLetter",
  },
  {
    row: "until its spec changes",
    agent: one,
    annotations: history(5, "2026-06-01T11:00:00Z"),
    pods: {
      0: "ready",
      1: { how: "failed", annotations: { ...drifted.annotations, [annotation.deadLetter]: "true" } },
    },
    does: rebuild,
  },
  {
    row: "or somebody removes it",
    agent: one,
    annotations: history(5, "2026-06-01T11:00:00Z"),
    pods: { 0: "ready" },
    does: ["create a-1 required n1", "note rebuild-history toolbox-rebuilds"],
  },
  {
    row: "attempts are forgotten after a while of health",
    agent: one,
    annotations: history(2, "2026-06-01T11:00:00Z"),
    pods: { 0: "ready", 1: { readyAt: "2026-06-01T11:40:00Z" } },
    does: ["note rebuild-history toolbox-rebuilds"],
  },
  {
    row: "toolboxes are rebuilt the same way",
    spec: box,
    pods: { 0: "ready", box: "failed" },
    does: [
      "note rebuild-history toolbox-rebuilds",
      "delete a-box",
      "count rebuild",
      "tell SubAgentRebuilding",
    ],
  },
  {
    row: "a static machine without address waits, it has not failed",
    spec: { toolboxes: [{ name: "box", mode: "static", awaitAddress: true }] },
    pods: { 0: "ready", box: "failed" },
    does: [],
    phase: "Scaling",
  },
]);

table("scale", [
  {
    row: "surplus goes, lowest slot first",
    agent: one,
    pods: { 0: "ready", 1: "ready", 2: "ready", 3: "ready" },
    does: ["note delete-vm-names", "delete a-2", "delete a-3"],
  },
  {
    row: "what sleeps there is noted first",
    agent: { replicas: 0 },
    pods: { 0: "ready", 1: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 1: digest },
    does: ["note delete-vm-names released-vm-names", "delete a-1"],
  },
  {
    row: "and renamed when its pod is gone",
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-a-1" },
    pods: { 0: "ready" },
    does: ["releaseSleeping a-1", "note released-vm-names"],
  },
  {
    row: "before a new machine gets the name",
    agent: one,
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-a-1" },
    pods: { 0: "ready" },
    does: ["releaseSleeping a-1", "note released-vm-names"],
  },
  {
    row: "a toolbox that is no longer asked for goes",
    pods: {
      0: "ready",
      box: { labels: { "cocoonset.cocoonstack.io/role": "toolbox", "cocoonset.cocoonstack.io/slot": "box" } },
    },
    does: ["note delete-vm-names", "delete a-box"],
  },
  {
    row: "spare machines come when all others are there",
    spec: { warmPool: { size: 2 } },
    agent: one,
    pods: { 0: "ready", 1: "ready" },
    does: ["create a-2 required n1", "create a-3 required n1"],
    phase: "Running",
  },
  {
    row: "a larger set takes a spare machine over",
    spec: { warmPool: { size: 1 } },
    agent: two,
    pods: {
      0: "ready",
      1: "ready",
      2: {
        labels: { "cocoonset.cocoonstack.io/role": "warm" },
        annotations: { [annotation.snapshotPolicy]: "never" },
      },
    },
    does: ["change a-2 snapshot-policy", "create a-3 required n1"],
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
    row: "until somebody asks for it",
    spec: idle,
    pods: { 0: { how: "asleep", annotations: { [annotation.hibernateReason]: "idle" } } },
    tags: { 0: digest },
    hibernations: { 0: { desire: "Wake" } },
    does: ["wake a-0"],
  },
]);

const deleting = { metadata: { deletionTimestamp: "2026-06-01T11:59:00Z" } };

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
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-1,vk-lab-a-box" },
    does: ["settle a-0+ a-1+ a-box+", "removeFinalizer"],
  },
  {
    row: "main-only: by the exact slot",
    ...deleting,
    spec: { snapshotPolicy: "main-only" },
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-1,vk-lab-a-box-0" },
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
    does: ["note delete-vm-names", "settle a-0+", "removeFinalizer"],
  },
]);

test("a plan is a function of what was seen", () => {
  const input: WorldInput = { agent: two, pods: { 0: "ready", 1: "failed" }, now };
  assert.deepEqual(lines(planSet(worldOf(input))), lines(planSet(worldOf(input))));
});
