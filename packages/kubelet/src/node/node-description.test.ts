import assert from "node:assert/strict";
import { test } from "node:test";
import {
  metadataRepair,
  newNode,
  saysSomethingNew,
  wantedStatus,
  type NodeDescription,
} from "./node-description.ts";

const description: NodeDescription = {
  labels: { pool: "a" },
  taints: [{ key: "only", value: "x", effect: "NoSchedule" }],
  capacity: { cpu: "4" },
  allocatable: { cpu: "4" },
  addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
  kubeletPort: 10_250,
  nodeInfo: { architecture: "arm64" },
  conditions: [{ type: "Ready", status: "True", reason: "KubeletReady", message: "ready" }],
};
const first = new Date("2026-01-01T00:00:00Z");
const later = new Date("2026-01-01T01:00:00Z");

test("a new node has its labels, taints and status; the same again changes nothing", () => {
  const node = newNode("n", description, first);
  assert.equal(node.metadata.labels?.["kubernetes.io/hostname"], "n");
  assert.equal(node.metadata.labels?.["kubernetes.io/arch"], "arm64");
  assert.equal(metadataRepair("n", description, node), undefined);
  const again = wantedStatus(description, node.status, later);
  assert.equal(saysSomethingNew(again, node.status), false);
  assert.equal(
    again.conditions?.[0]?.lastTransitionTime,
    "2026-01-01T00:00:00Z",
    "nothing changed, so the transition is the old one",
  );
  assert.equal(again.conditions?.[0]?.lastHeartbeatTime, "2026-01-01T01:00:00Z");
});

test("a condition that changes moves its transition and is news; so is less capacity", () => {
  const node = newNode("n", description, first);
  const sick: NodeDescription = {
    ...description,
    conditions: [{ type: "Ready", status: "False", reason: "Sick", message: "cough" }],
  };
  const status = wantedStatus(sick, node.status, later);
  assert.equal(status.conditions?.[0]?.lastTransitionTime, "2026-01-01T01:00:00Z");
  assert.ok(saysSomethingNew(status, node.status));
  assert.ok(
    saysSomethingNew(
      wantedStatus({ ...description, allocatable: { cpu: "2" } }, node.status, later),
      node.status,
    ),
  );
  assert.ok(saysSomethingNew(status, undefined));
});

test("what others put on the node stays, what is ours is put back", () => {
  const node = newNode("n", description, first);
  const changed = {
    ...node,
    metadata: { ...node.metadata, resourceVersion: "7", labels: { theirs: "1", pool: "b" } },
    spec: {
      taints: [
        { key: "theirs", effect: "NoExecute" },
        { key: "only", value: "changed", effect: "NoSchedule" },
      ],
    },
  };
  const repair = metadataRepair("n", description, changed) as {
    metadata: { labels: Record<string, string>; resourceVersion: string };
    spec: { taints: { key: string; value?: string }[] };
  };
  assert.equal(repair.metadata.resourceVersion, "7", "not over taints that are added meanwhile");
  assert.equal(repair.metadata.labels["pool"], "a");
  assert.equal(repair.metadata.labels["theirs"], undefined, "a merge patch leaves it alone");
  assert.deepEqual(
    repair.spec.taints.map((taint) => `${taint.key}=${taint.value ?? ""}`),
    ["theirs=", "only=x"],
  );
});
