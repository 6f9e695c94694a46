/** Sets are created while as many others are deleted: neither may wait for the other. */
import { createSets, forEachSet, namespace, reachAll, sets, type Platform } from "./platform.ts";

export interface Churn {
  readonly sets: number;
  /** From the first create to all Running. */
  readonly aloneSeconds: number;
  readonly churnSeconds: number;
  /** Until the deleted ones are gone. */
  readonly deletionSeconds: number;
  readonly cpuPerCreation: number;
  readonly cpuPerDeletion: number;
  readonly conflicts: number;
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1_000;
}

export async function measureChurn(platform: Platform, count: number): Promise<Churn> {
  const { connection, signal } = platform;
  // The first sets of a process pay for what is compiled and opened once.
  await createSets(platform, { prefix: "warm", count: 20 });
  await reachAll(platform, { prefix: "warm", count: 20 });
  const start = await platform.readNumbers();
  const aloneSeconds = await timed(async () => {
    await createSets(platform, { prefix: "old", count });
    await reachAll(platform, { prefix: "old", count });
  });
  const created = await platform.readNumbers();
  const deleting = forEachSet({ prefix: "old", count }, (name) =>
    connection.delete(sets, { namespace, name }, { signal }),
  );
  const [churnSeconds, deletionSeconds] = await Promise.all([
    timed(async () => {
      await createSets(platform, { prefix: "new", count });
      await reachAll(platform, { prefix: "new", count });
    }),
    timed(async () => {
      await deleting;
      await reachAll(platform, { prefix: "old", count: 0 });
    }),
  ]);
  const end = await platform.readNumbers();
  const cpuPerCreation = (created.cpuSeconds - start.cpuSeconds) / count;
  return {
    sets: count,
    aloneSeconds,
    churnSeconds,
    deletionSeconds,
    cpuPerCreation,
    cpuPerDeletion: (end.cpuSeconds - created.cpuSeconds) / count - cpuPerCreation,
    conflicts: end.conflicts - start.conflicts,
  };
}
