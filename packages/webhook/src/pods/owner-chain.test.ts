import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "@cocoon/kube";
import { readOwnerChain } from "./owner-chain.ts";

const options = { namespace: "ns", requestName: "", deploymentUid: () => "du" };
const owner = (kind: string, name: string) => [{ apiVersion: "v1", kind, name, uid: "u", controller: true }];

function read(metadata: Pod["metadata"], requestName = ""): string {
  const { ownerChain, podName, ordinal } = readOwnerChain({ metadata }, { ...options, requestName });
  const { kind, name, uid } = ownerChain.owner;
  return `${ownerChain.form} ${kind}/${name}/${uid} ${podName || "-"} ${ordinal}`;
}

test("whose machine a pod is", () => {
  const hash = { "pod-template-hash": "6f5d" };
  const cases: readonly (readonly [string, Pod["metadata"], string?])[] = [
    ["slot Deployment/web/du - 0", { labels: hash, ownerReferences: owner("ReplicaSet", "web-6f5d") }],
    ["slot Deployment/my.web/du - 0", { labels: hash, ownerReferences: owner("ReplicaSet", "my.web-6f5d") }],
    ["slot Deployment/box/du box-0 0", { name: "box-0", ownerReferences: owner("ReplicaSet", "box-6f5d") }],
    ["slot ReplicaSet/web-front/u - 0", { labels: hash, ownerReferences: owner("ReplicaSet", "web-front") }],
    ["slot ReplicaSet/web/u - 0", { ownerReferences: owner("ReplicaSet", "web") }],
    ["slot Job/batch/u - 0", { generateName: "batch-", ownerReferences: owner("Job", "batch") }],
    ["pod StatefulSet/db/u db-3 3", { name: "db-3", ownerReferences: owner("StatefulSet", "db") }],
    ["slot DaemonSet/agent/u - 0", { generateName: "agent-", ownerReferences: owner("DaemonSet", "agent") }],
    ["pod Pod/box/ box 0", { name: "box" }],
    ["pod Pod/asked/ asked 0", {}, "asked"],
  ];
  for (const [expected, metadata, requestName] of cases) assert.equal(read(metadata, requestName), expected);
});

test("a pod without a name and an owner cannot have a machine", () => {
  assert.throws(() => read({ generateName: "x-" }), /needs a name/);
});
