/**
 * Several replicas on one bucket need an S3 service that writes conditionally. On one that does not, a second replica
 * refuses to start: it finds the first one's heartbeat.
 */
import { randomBytes } from "node:crypto";
import { Fault, getErrorMessage, sleep, type Logger } from "@cocoon/core";
import { layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

const heartbeatMs = 20_000;
/** A heartbeat that is older belongs to a replica that ended. */
const aliveMs = 3 * heartbeatMs;

/** Throws `conflict` when another replica runs and the storage cannot coordinate the two. */
export async function ensureReplicaAllowed(storage: Storage, log: Logger): Promise<AsyncDisposable> {
  if (!storage.isShared || (await writesConditionally(storage)))
    return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const other = await storage.stat(layout.soleReplica);
  if (other && (await storage.now()) - other.modifiedAtMs < aliveMs)
    throw new Fault(
      "conflict",
      `${storage.description} is in use by another replica, and the service does not support conditional writes; stop the other one, or wait ${aliveMs / 1_000} s if it has ended`,
    );
  return keepHeartbeat(storage, log);
}

async function writesConditionally(storage: Storage): Promise<boolean> {
  const key = layout.probe(randomBytes(16).toString("hex"));
  await storage.put(key, Buffer.from("first"));
  try {
    return (await storage.putIf(key, Buffer.from("second"), undefined)) === undefined;
  } finally {
    await storage.delete(key);
  }
}

async function keepHeartbeat(storage: Storage, log: Logger): Promise<AsyncDisposable> {
  const stopping = new AbortController();
  const beat = () => storage.put(layout.soleReplica, Buffer.from(String(process.pid)));
  await beat();
  const beating = (async () => {
    while (await sleep(heartbeatMs, { signal: stopping.signal }))
      await beat().catch((error: unknown) =>
        log.warn({ error: getErrorMessage(error) }, "replica heartbeat could not be written"),
      );
  })();
  return {
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await beating;
      await storage.delete(layout.soleReplica);
    },
  };
}
