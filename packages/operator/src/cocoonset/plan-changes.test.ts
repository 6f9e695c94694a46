/** What is planned for moves, drift, failures and scale. */
import { annotation, setAnnotation } from "@cocoon/contract";
import { digest, memory, migrating } from "../testing/fixtures.ts";
import { table } from "../testing/plan-table.ts";

const suspend = { suspend: true };
const two = { replicas: 2 };
const asleep = { state: "hibernated", digest };
const box = { toolboxes: [{ name: "box", image: "x" }] };

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
    problem: "MigrationRefused",
  },
  {
    row: "a node that is not ready",
    spec: { nodeName: "n2" },
    nodes: { n2: { ready: false } },
    pods: { 0: "ready" },
    does: [],
    problem: "MigrationRefused",
  },
  {
    row: "a node of another pool",
    spec: { nodeName: "n2" },
    nodes: { n2: { pool: "x" } },
    pods: { 0: "ready" },
    does: [],
    problem: "MigrationRefused",
  },
  {
    row: "a node without room",
    spec: { nodeName: "n2" },
    nodes: { n2: { lacks: () => "full" } },
    pods: { 0: "ready" },
    does: [],
    problem: "MigrationRefused",
  },
  {
    row: "noted and written before the key",
    ...n2,
    pods: { 0: "ready" },
    does: ["note migration", "persistStatus", "emit Migrating", "sleep a-0 (migration)"],
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
    lookups: ["a-0"],
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
    problem: "SnapshotMissing",
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
    does: ["persistStatus", "note migration", "create a-0 restore"],
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
    does: ["note migration", "emit Migrated"],
    phase: "Running",
  },
  {
    row: "called off while it sleeps: woken in place",
    annotations: migrating("n2"),
    pods: { 0: sleepsForMove },
    tags: { 0: digest },
    does: ["persistStatus", "note migration", "wake a-0"],
    phase: "Migrating",
  },
  {
    row: "does not go to sleep in time: stays",
    ...n2,
    annotations: migrating("n2", { startedAt: "2026-06-01T11:00:00Z" }),
    pods: { 0: { ...sleepsForMove, how: "dozing" } },
    does: ["note migration", "wake a-0"],
    problem: "MigrationReturned",
  },
  {
    row: "does not come up in time: goes back",
    ...n2,
    annotations: migrating("n2", { startedAt: "2026-06-01T11:00:00Z" }),
    status: memory("Migrating", { 0: asleep }),
    pods: { 0: { how: "unschedulable", affinityTo: "n2" } },
    does: ["note migration", "delete a-0"],
    problem: "MigrationReturned",
  },
  {
    row: "on the way back: bound to the old node",
    ...n2,
    annotations: migrating("n2", { returned: 2 }),
    status: memory("Migrating", { 0: asleep }),
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore required n1"],
    problem: "MigrationReturned",
  },
  {
    row: "on the way back, and its pod still waits for the target: replaced",
    ...n2,
    annotations: migrating("n2", { returned: 2 }),
    status: memory("Migrating", { 0: asleep }),
    pods: { 0: { how: "unschedulable", affinityTo: "n2" } },
    does: ["delete a-0"],
    problem: "MigrationReturned",
  },
  {
    row: "back: not tried again",
    ...n2,
    annotations: migrating("n2", { returned: 2 }),
    pods: { 0: "ready" },
    does: [],
    phase: "Running",
    problem: "MigrationReturned",
  },
  {
    row: "until a user names another node",
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
  "emit SubAgentRebuilding",
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
    problem: "PodLifecycleFailed",
  },
  {
    row: "one whose pod failed too",
    pods: { 0: "gone-bad" },
    does: [],
    phase: "Failed",
    problem: "MainAgentFailed",
  },
  {
    row: "a failure of an older request does not count",
    pods: { 0: { how: "failed", annotations: { [annotation.lifecycleObservedGeneration]: "1" } } },
    does: [],
    phase: "Pending",
  },
  {
    row: "a failed main agent that drifted is replaced",
    tags: { 0: null },
    pods: { 0: { how: "failed", ...drifted } },
    does: ["delete a-0", "count rebuild", "emit SubAgentRebuilding"],
    problem: "PodLifecycleFailed",
  },
  {
    row: "one that may be rebuilt is",
    tags: { 0: null },
    spec: { rebuild: { main: "Image" } },
    pods: { 0: "failed" },
    does: ["note rebuild-history toolbox-rebuilds", "delete a-0", "count rebuild", "emit SubAgentRebuilding"],
    problem: "PodLifecycleFailed",
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
    tags: { 1: null },
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
    tags: { 1: null },
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
      "emit SubAgentDeadLetter",
    ],
  },
  {
    row: "what was left stays",
    agent: one,
    annotations: history(5, "2026-06-01T11:00:00Z"),
    pods: { 0: "ready", 1: { how: "failed", annotations: { [annotation.deadLetter]: "true" } } },
    does: [],
    problem: "DeadLetter",
  },
  {
    row: "until its spec changes",
    tags: { 1: null },
    agent: one,
    annotations: history(5, "2026-06-01T11:00:00Z"),
    pods: {
      0: "ready",
      1: { how: "failed", annotations: { ...drifted.annotations, [annotation.deadLetter]: "true" } },
    },
    does: rebuild,
  },
  {
    row: "or a user removes it",
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
    tags: { box: null },
    spec: box,
    pods: { 0: "ready", box: "failed" },
    does: [
      "note rebuild-history toolbox-rebuilds",
      "delete a-box",
      "count rebuild",
      "emit SubAgentRebuilding",
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

table("forks", [
  {
    row: "one that waits beside a source that moved is made anew",
    agent: one,
    pods: {
      0: { node: "n2" },
      1: { how: "pending", affinityTo: "n1", annotations: { [annotation.lifecycleState]: "creating" } },
    },
    does: ["delete a-1"],
  },
  {
    row: "one whose source hibernated before it was made goes, and is made when the source runs",
    agent: one,
    pods: {
      0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } },
      1: { how: "pending", annotations: { [annotation.lifecycleState]: "creating" } },
    },
    tags: { 0: digest },
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    does: ["delete a-1"],
  },
  {
    row: "one that was restored stays although its source hibernates",
    agent: one,
    pods: {
      0: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } },
      1: { how: "pending", annotations: { [annotation.restoreFromHibernate]: "true" } },
    },
    tags: { 0: digest },
    hibernations: { 0: { status: { phase: "Hibernated" } } },
    does: [],
  },
  { row: "one that lives stays where it is", agent: one, pods: { 0: { node: "n2" }, 1: "ready" }, does: [] },
]);

table("scale", [
  {
    row: "surplus goes, lowest slot first, and is noted before",
    agent: one,
    pods: { 0: "ready", 1: "ready", 2: "ready", 3: "ready" },
    does: ["note delete-vm-names released-vm-names", "delete a-2", "delete a-3"],
  },
  {
    row: "also where one sleeps",
    agent: { replicas: 0 },
    pods: { 0: "ready", 1: { how: "asleep", annotations: { [annotation.hibernateReason]: "hibernation" } } },
    tags: { 1: digest },
    does: ["note delete-vm-names released-vm-names", "delete a-1"],
  },
  {
    row: "and renamed when its pod is gone",
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-a-1" },
    pods: { 0: "ready" },
    does: ["release a-1", "persistStatus", "note released-vm-names"],
  },
  {
    row: "but not while others are noted: the one note would forget the other",
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-a-1" },
    agent: { replicas: 0 },
    pods: { 0: "ready", 2: "ready" },
    does: ["note delete-vm-names released-vm-names", "delete a-2"],
  },
  {
    row: "before a new machine gets the name",
    agent: one,
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-a-1" },
    pods: { 0: "ready" },
    does: ["release a-1", "persistStatus", "note released-vm-names"],
  },
  {
    row: "a toolbox that is no longer asked for goes",
    pods: {
      0: "ready",
      box: { labels: { "cocoonset.cocoonstack.io/role": "toolbox", "cocoonset.cocoonstack.io/slot": "box" } },
    },
    does: ["note delete-vm-names released-vm-names", "delete a-box"],
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
