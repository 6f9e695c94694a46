/** Machines hibernate and wake through two registry processes on one bucket of an S3 service. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep } from "@cocoon/core";
import { startReplica, type Replica } from "../../integration/registry/replica.ts";
import { startS3Server } from "../../peers/s3-server.ts";
import type { Platform } from "../platform.ts";
import type { NamedHistory } from "./history.ts";
import { play, set, startMachine, step } from "./scenario.ts";

const cycles = 3;

interface Replicas extends AsyncDisposable {
  readonly ports: readonly number[];
  /** Ends one of them and starts it again, on its old port. */
  readonly restart: () => Promise<void>;
  readonly collected: () => number;
}

async function startReplicas(platform: Platform): Promise<Replicas> {
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startS3Server());
  const { endpoint, accessKey, secretKey, bucket } = server;
  const staticToken = (await readFile(join(platform.home, "parts", "registry-token"), "utf8")).trim();
  const start = (name: string, port = 0) =>
    startReplica({
      storage: { kind: "s3", endpoint, accessKey, secretKey, bucket, region: "us-east-1", prefix: "chaos/" },
      uploadDirectory: join(tmpdir(), `chaos-uploads-${process.pid}-${name}`),
      staticToken,
      port,
      gcSettleMs: 500,
      maintenanceLeaseMs: 3_000,
    });
  let first: Replica = await start("first");
  const second = stack.use(await start("second"));
  stack.defer(() => first[Symbol.asyncDispose]());
  const getPort = ({ client }: Replica) => Number(new URL(client.base).port);
  const ports = [getPort(first), getPort(second)];
  const stopping = new AbortController();
  let collected = 0;
  const collect = async (pick: () => Replica) => {
    while (!stopping.signal.aborted) {
      const { problem } = await pick()
        .collectGarbage()
        .catch((error: unknown) => ({ problem: String(error) }));
      if (problem === undefined) collected += 1;
      await sleep(300, { signal: stopping.signal });
    }
  };
  const collecting = [collect(() => first), collect(() => second)];
  stack.defer(async () => {
    stopping.abort();
    await Promise.all(collecting);
  });
  const kept = stack.move();
  return {
    ports,
    collected: () => collected,
    restart: async () => {
      await first[Symbol.asyncDispose]();
      first = await start("first", ports[0]);
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function sleepThroughReplicas(platform: Platform): Promise<void> {
  await using replicas = await startReplicas(platform);
  using _replicas = platform.registry.useReplicas(replicas.ports);
  const model = await startMachine(platform);
  for (let cycle = 1; cycle <= cycles; cycle += 1) {
    const suspending = play(platform, model, step({ kind: "suspend", set }));
    if (cycle > 1) await replicas.restart();
    await suspending;
    const waking = play(platform, model, step({ kind: "resume", set }));
    if (cycle > 2) await replicas.restart();
    await waking;
  }
  assert.ok(replicas.collected() > 0, "no garbage was collected");
  platform.log(`  garbage was collected ${replicas.collected()} times`);
  await play(platform, model, step({ kind: "delete", set }));
}

export const registryReplicas: readonly NamedHistory[] = [
  {
    name: "two-registry-replicas",
    finding: "A10",
    title:
      "two registries on one S3 bucket collect garbage, and one is killed, while a machine hibernates and wakes",
    run: sleepThroughReplicas,
  },
];
