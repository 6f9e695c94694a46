import assert from "node:assert/strict";
import { it } from "node:test";
import { silentLogger } from "@cocoon/core";
import { layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import { openFakeStorage } from "../testing/fake-storage.ts";
import { ensureReplicaAllowed } from "./sole-replica.ts";

/** A bucket that several replicas reach; without conditions every conditional write succeeds. */
function openBucket({ hasConditions, now }: { hasConditions: boolean; now?: () => number }): Storage {
  const storage = openFakeStorage(now ? { now } : {});
  const putAlways: Storage["putIf"] = async (key, content) => {
    await storage.put(key, content);
    return "version";
  };
  return Object.assign(storage, { isShared: true }, hasConditions ? {} : { putIf: putAlways });
}

it("a second replica on a bucket without conditional writes is refused until the first one ended", async () => {
  const bucket = openBucket({ hasConditions: false });
  const first = await ensureReplicaAllowed(bucket, silentLogger);
  await assert.rejects(ensureReplicaAllowed(bucket, silentLogger), {
    code: "conflict",
    message: /in use by another replica.*does not support conditional writes; stop the other one/,
  });
  await first[Symbol.asyncDispose]();
  const second = await ensureReplicaAllowed(bucket, silentLogger);
  await second[Symbol.asyncDispose]();
  assert.deepEqual(
    await Array.fromAsync(bucket.list("server/")),
    [],
    "neither heartbeat nor probes are left",
  );
});

it("the heartbeat of a replica that was killed stops counting", async () => {
  let nowMs = 1_000_000;
  const bucket = openBucket({ hasConditions: false, now: () => nowMs });
  await bucket.put(layout.soleReplica, Buffer.from("1"));
  nowMs += 59_000;
  await assert.rejects(ensureReplicaAllowed(bucket, silentLogger), { code: "conflict" });
  nowMs += 2_000;
  await using _replica = await ensureReplicaAllowed(bucket, silentLogger);
});

it("replicas share a bucket with conditional writes", async () => {
  const bucket = openBucket({ hasConditions: true });
  await using _first = await ensureReplicaAllowed(bucket, silentLogger);
  await using _second = await ensureReplicaAllowed(bucket, silentLogger);
});
