import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeLabel, shardAnnotation } from "@cocoon/contract";
import type { ConfigMap } from "@cocoon/kube";
import { ReservationIndex } from "./reservation-index.ts";
import { newShard, shardIndex, shardName } from "./shard.ts";
import { findOpenShard } from "./shard-writes.ts";

test("names of shards and their places in the chain", () => {
  assert.equal(shardName("gpu", 0), "cocoon-affinity-gpu");
  assert.equal(shardName("gpu", 12), "cocoon-affinity-gpu-12");
  assert.equal(shardIndex("gpu", "cocoon-affinity-gpu-12"), 12);
  assert.equal(shardIndex("gpu", "cocoon-affinity-gpu"), 0);
  assert.equal(shardIndex("gpu-1", "cocoon-affinity-gpu-1"), 0, "the label decides whose it is");
  for (const name of ["cocoon-affinity-gpu-0", "cocoon-affinity-gpu-01", "cocoon-affinity-gpux", "other"])
    assert.equal(shardIndex("gpu", name), undefined);
});

const noObserver = { add: () => undefined, remove: () => undefined };

function shard(pool: string, index: number, { sealed = false, version = 1 } = {}): ConfigMap {
  const object = newShard(pool, index, { data: {}, seal: sealed });
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
}

test("only the last shard of a chain takes new entries, and only when all before it are sealed", () => {
  const reserved = new ReservationIndex(noObserver);
  const open = (occupied: readonly string[] = []) =>
    findOpenShard("gpu", reserved, (name) => occupied.includes(name));
  assert.deepEqual(open(), { kind: "create", index: 0 });
  reserved.apply(shard("gpu", 0));
  assert.deepEqual(open(), { kind: "shard", name: "cocoon-affinity-gpu" });
  reserved.apply(shard("gpu", 2, { version: 2 }));
  assert.deepEqual(open(), { kind: "seal", name: "cocoon-affinity-gpu" });
  reserved.apply(shard("gpu", 0, { sealed: true, version: 3 }));
  assert.deepEqual(open(), { kind: "shard", name: "cocoon-affinity-gpu-2" });
  reserved.apply(shard("gpu", 2, { sealed: true, version: 4 }));
  assert.deepEqual(open(), { kind: "create", index: 3 });
  assert.deepEqual(open(["cocoon-affinity-gpu-3"]), { kind: "create", index: 4 }, "another owner's object");
  reserved.apply(shard("gpu-3", 0, { version: 5 }));
  assert.deepEqual(open(), { kind: "create", index: 4 }, "another pool's first shard has that name");
});

test("a shard carries the documented labels, and its seal", () => {
  assert.deepEqual(newShard("gpu", 1, { data: { a: "b", gone: null }, seal: true }), {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      namespace: "cocoon-system",
      name: "cocoon-affinity-gpu-1",
      labels: { "app.kubernetes.io/managed-by": "cocoon-webhook", [nodeLabel.pool]: "gpu" },
      annotations: { [shardAnnotation.sealed]: "true" },
    },
    data: { a: "b" },
  });
});
