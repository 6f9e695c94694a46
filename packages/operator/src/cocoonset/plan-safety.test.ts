/** No machine is replaced, dropped or touched by a set that is not its own, whatever the annotations say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, setAnnotation } from "@cocoon/contract";
import { buildObserved, digest, memory, otherDigest, type ObservedInput } from "../testing/fixtures.ts";
import { table } from "../testing/plan-table.ts";
import { planSet } from "./plan.ts";
import { computeStatus } from "./status.ts";

const one = { replicas: 1 };
const box = { toolboxes: [{ name: "box", image: "tools:v1" }] };
const waking = { state: "creating", digest };
const longReady = "2026-06-01T11:00:00Z";
const rebuild = [
  "note rebuild-history toolbox-rebuilds",
  "delete a-1",
  "count rebuild",
  "emit SubAgentRebuilding",
];

table("a failed machine is not replaced when that could cost its state", [
  {
    row: "the registry is looked up first",
    agent: one,
    pods: { 0: "ready", 1: "failed" },
    does: [],
    lookups: ["a-1"],
  },
  {
    row: "a registry that does not answer stops it",
    agent: one,
    pods: { 0: "ready", 1: "failed" },
    tags: { 1: new Error("down") },
    does: [],
    problem: "RegistryUnavailable",
  },
  {
    row: "a snapshot that is not known stays, and so does the pod",
    agent: one,
    pods: { 0: "ready", 1: "failed" },
    tags: { 1: digest },
    does: [],
    problem: "SnapshotExists",
  },
  {
    row: "a wake that failed is done again",
    agent: one,
    status: memory("Scaling", { 1: waking }),
    pods: { 0: "ready", 1: { how: "failed", restored: true, recorded: digest } },
    tags: { 1: digest },
    does: rebuild,
  },
  {
    row: "a sub-agent whose snapshot is lost stays as it is",
    agent: one,
    pods: { 0: "ready", 1: { how: "failed", recorded: digest } },
    tags: { 1: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "so does one that was to be restored, by the status",
    agent: one,
    status: memory("Scaling", { 1: waking }),
    pods: { 0: "ready", 1: "failed" },
    tags: { 1: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "and a toolbox that was to be restored, by its mark",
    spec: box,
    pods: { 0: "ready", box: { how: "failed", restored: true } },
    tags: { box: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "the main agent too, where it may be rebuilt",
    spec: { rebuild: { main: "Image" } },
    pods: { 0: { how: "gone-bad", recorded: digest } },
    tags: { 0: null },
    does: [],
    problem: "MainAgentFailed, SnapshotMissing",
  },
  {
    row: "unless a user permits it",
    agent: one,
    annotations: { [setAnnotation.bootFresh]: "a-1" },
    pods: { 0: "ready", 1: { how: "failed", recorded: digest } },
    tags: { 1: null },
    does: rebuild,
  },
  {
    row: "a snapshot that is there is renamed then, never dropped",
    agent: one,
    annotations: { [setAnnotation.bootFresh]: "a-1" },
    pods: { 0: "ready", 1: "failed" },
    tags: { 1: otherDigest },
    does: ["release a-1", ...rebuild],
  },
  {
    row: "the permission ends when the machine is there",
    agent: one,
    annotations: { [setAnnotation.bootFresh]: "a-1,a-0" },
    pods: { 0: "ready" },
    does: ["note boot-fresh", "create a-1 required n1"],
  },
]);

table("a machine without a pod is not replaced when its snapshot is lost", [
  {
    row: "a wake that failed is restored again",
    status: memory("Waking", { 0: { state: "failed", digest } }),
    tags: { 0: digest },
    does: ["persistStatus", "create a-0 restore"],
  },
  {
    row: "a wake that failed and has no snapshot waits for a user",
    status: memory("Waking", { 0: { state: "failed", digest } }),
    tags: { 0: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "another operator's set that released its pod has no snapshot: it waits for a user",
    status: { phase: "Suspended" },
    annotations: { [setAnnotation.hibernatedOnNode]: "n3" },
    tags: { 0: null },
    does: [],
    problem: "SnapshotMissing",
  },
  {
    row: "so does a machine that a CocoonHibernation proved asleep",
    status: memory("Running", { 0: {} }),
    hibernations: { 0: { status: { phase: "Hibernated", snapshotDigest: digest } } },
    tags: { 0: null },
    does: [],
    problem: "SnapshotMissing",
  },
]);

table("a snapshot is dropped only with proof of descent", [
  {
    row: "an older kubelet booted fresh: the recorded digest is no proof",
    status: memory("Running", { 0: { state: "ready", digest } }),
    pods: { 0: { readyAt: longReady, recorded: digest } },
    tags: { 0: digest },
    does: [],
  },
  {
    row: "the VM was restored from another one",
    status: memory("Running", { 0: { state: "ready", digest } }),
    pods: { 0: { readyAt: longReady, restoredDigest: otherDigest } },
    tags: { 0: digest },
    does: [],
  },
]);

table("lists of names are believed only for names that the set can own", [
  {
    row: "a copy of another set does not settle the original's snapshots",
    metadata: { deletionTimestamp: "2026-06-01T11:00:00Z" },
    annotations: {
      [setAnnotation.deleteVmNames]: "vk-lab-b-0,vk-lab-b-1,vk-lab-b-box",
      [setAnnotation.vmNamesUid]: "uid-of-b",
    },
    does: ["note delete-vm-names", "settle a-0+", "removeFinalizer"],
  },
  {
    row: "nor does one whose name is the beginning of the original's",
    metadata: { deletionTimestamp: "2026-06-01T11:00:00Z" },
    annotations: {
      [setAnnotation.deleteVmNames]: "vk-lab-a-x-0,vk-lab-a-x-1",
      [setAnnotation.vmNamesUid]: "uid-of-a-x",
    },
    does: ["note delete-vm-names", "settle a-0+", "removeFinalizer"],
  },
  {
    row: "its own list counts, also for toolboxes that are gone",
    metadata: { deletionTimestamp: "2026-06-01T11:00:00Z" },
    annotations: {
      [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-old",
      [setAnnotation.vmNamesUid]: "set-uid",
    },
    does: ["settle a-0+ a-old+", "removeFinalizer"],
  },
  {
    row: "slots of a list that another operator wrote count",
    metadata: { deletionTimestamp: "2026-06-01T11:00:00Z" },
    annotations: { [setAnnotation.deleteVmNames]: "vk-lab-a-0,vk-lab-a-7" },
    does: ["settle a-0+ a-7+", "removeFinalizer"],
  },
  {
    row: "a name that another owner has is never touched",
    metadata: { deletionTimestamp: "2026-06-01T11:00:00Z" },
    claimed: ["vk-lab-a-0"],
    does: ["settle ", "removeFinalizer"],
  },
  {
    row: "a copy does not rename the original's snapshots",
    annotations: { [setAnnotation.releasedVmNames]: "vk-lab-b-1", [setAnnotation.vmNamesUid]: "uid-of-b" },
    pods: { 0: "ready" },
    does: [],
  },
]);

const readConditions = (input: ObservedInput) => {
  const observed = buildObserved(input);
  const status = computeStatus(observed, planSet(observed));
  return { status, kept: status.conditions?.find(({ type }) => type === "SnapshotsKept") };
};

test("a snapshot under a running machine that did not come from it is reported once, by digest", () => {
  const input = {
    status: memory("Running", { 0: { state: "ready", digest } }),
    pods: { 0: { readyAt: longReady } },
    tags: { 0: digest },
  };
  const { status, kept } = readConditions(input);
  assert.equal(kept?.status, "True");
  assert.match(kept.message, new RegExp(digest));
  assert.equal(status.agents?.[0]?.snapshotDigest, digest, "the status goes on to name it");
  const { tags: _tags, ...later } = input;
  const next = buildObserved({ ...later, status: { ...status } });
  assert.deepEqual(planSet(next).lookups, [], "it is not looked up again");
});

test("a pod is deleted only in the version that the plan saw", () => {
  const rows: readonly ObservedInput[] = [
    { agent: one, pods: { 0: "ready", 1: "failed" }, tags: { 1: null } },
    { pods: { 0: { annotations: { [annotation.templateHash]: "another" } } } },
    {
      spec: { nodeName: "n2", migration: { timeout: "1s" } },
      status: memory("Migrating", { 0: waking }),
      annotations: {
        [setAnnotation.migration]: JSON.stringify({
          from: "n1",
          to: "n2",
          startedAt: "2026-06-01T11:00:00Z",
        }),
      },
      pods: { 0: { how: "waking", node: "n2", restored: true } },
    },
  ];
  for (const row of rows) {
    const deletes = planSet(buildObserved(row)).actions.filter(({ kind }) => kind === "deletePod");
    assert.equal(deletes.length, 1, JSON.stringify(row));
    assert.ok(deletes.every((action) => action.kind === "deletePod" && action.ifUnchanged));
  }
});

const vmName = "vk-lab-a-0";
const findPlacements = (input: ObservedInput) =>
  planSet(buildObserved(input)).actions.flatMap((action) =>
    action.kind === "createPod" ? [action.options.placement] : [],
  );

test("a pod that vanished is created again where its VM is, and nowhere else", () => {
  const ran = memory("Running", { 0: { state: "ready" } });
  const held = { node: "n1", usable: true };
  for (const input of [
    { status: ran, tags: { 0: null } },
    { status: ran, tags: { 0: null }, spec: { nodeName: "n2" } },
    { status: ran, tags: { 0: null }, spec: { suspend: true } },
    {},
  ]) {
    const placements = findPlacements({ ...input, holders: { [vmName]: held } });
    assert.deepEqual(placements, [{ kind: "required", node: "n1" }], JSON.stringify(input));
    const waiting = { ...input, holders: { [vmName]: { ...held, usable: false } } };
    assert.deepEqual(findPlacements(waiting), [], "the node that holds it takes no pods");
    const { problems } = planSet(buildObserved(waiting));
    assert.deepEqual(
      problems.map(({ reason }) => reason),
      ["NodeUnavailable"],
    );
    const permitted = { ...waiting, annotations: { [setAnnotation.bootFresh]: "a-0" } };
    assert.equal(findPlacements(permitted).length, 1, "a user permits a fresh one");
  }
});

test("a pod that waits for the node that holds its VM is left alone", () => {
  const holders = { [vmName]: { node: "n1", usable: true } };
  const affinity = {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: ["n1"] }] },
        ],
      },
    },
  };
  const observed = buildObserved({ holders, pods: { 0: "unschedulable" } });
  const machines = observed.machines.map((machine) => ({
    ...machine,
    pod: { ...machine.pod, spec: { containers: [], ...machine.pod.spec, affinity } },
  }));
  const deletes = (input: typeof observed) =>
    planSet(input).actions.filter(({ kind }) => kind === "deletePod").length;
  assert.equal(deletes({ ...observed, machines }), 0);
  assert.equal(deletes({ ...observed, machines, findHolder: () => undefined }), 1);
});
