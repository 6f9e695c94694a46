/**
 * Keeps the store true. One replica does it, by lease: what is seen of pods is written within seconds (so that it
 * outlives this process), everything is looked at again at intervals, empty shards are removed.
 */
import { systemNamespace } from "@cocoon/contract";
import { getErrorMessage, isFault, sleep, type Abortable, type Logger, type Registry } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import { lead, type Leadership } from "@cocoon/kube/controller";
import type { Model } from "../model.ts";
import type { Entry } from "../store/entry.ts";
import type { OwnMachine } from "../snapshots.ts";
import type { Reservations } from "../store/reservations.ts";
import type { ShardWrites } from "../store/shard-writes.ts";
import { adoptPods } from "./adopt.ts";
import type { Graces } from "./changes.ts";
import { importOlderStores } from "./import-older.ts";
import { sweep } from "./sweep.ts";

export interface ReaperOptions extends Graces {
  readonly client: KubeClient;
  readonly model: Model;
  readonly reservations: Reservations;
  readonly writes: ShardWrites;
  readonly intervalMs: number;
  readonly findNodePool: (node: string) => string;
  /** Retags the snapshot under that name, so that a later machine of that name does not restore it. */
  readonly releaseSnapshot: (machine: OwnMachine, options: Abortable) => Promise<void>;
  readonly released: (entry: Entry) => void;
  readonly duplicates: (count: number) => void;
  readonly registry: Registry;
  readonly replica: string;
  readonly log: Logger;
}

const lease = { namespace: systemNamespace, name: "cocoon-webhook-reaper" };
/** How soon what was seen is written; the sweep between costs no call when nothing changed. */
const tickMs = 1_000;
/** How often the API server is read about what may be released. */
const releaseMs = 10_000;

/** Runs until the signal aborts; leadership that is lost is sought again. */
export async function runReaper(options: ReaperOptions, { signal }: Abortable): Promise<void> {
  const { client, log, registry, replica } = options;
  while (!signal.aborted) {
    try {
      await lead(
        { client, lease, signal, log, registry, identity: `${replica}_${process.pid}` },
        (leadership) => reap(options, leadership, signal),
      );
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ error: getErrorMessage(error) }, "reaper interrupted");
      await sleep(tickMs, { signal });
    }
  }
}

async function reap(options: ReaperOptions, leadership: Leadership, ending: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([leadership.signal, ending]);
  let lastFullMs = -Infinity;
  let lastReleaseMs = -Infinity;
  let isImported = false;
  do {
    try {
      if (!isImported) {
        await importOlderStores({ ...options, workloads: options.model.workloads }, { signal });
        isImported = true;
      }
      const releases = performance.now() - lastReleaseMs >= Math.min(releaseMs, options.intervalMs);
      if (releases) lastReleaseMs = performance.now();
      await tick(options, { leadership, releases, signal });
      if (performance.now() - lastFullMs >= options.intervalMs) {
        lastFullMs = performance.now();
        await removeEmptyShards({ ...options, reserved: options.model.reserved }, { signal });
      }
    } catch (error) {
      if (signal.aborted) return;
      options.log.warn({ error: getErrorMessage(error) }, "reservations not tidied up");
    }
  } while (await sleep(Math.min(tickMs, options.intervalMs), { signal }));
}

interface Tick extends Abortable {
  readonly leadership: Leadership;
  readonly releases: boolean;
}

async function tick(options: ReaperOptions, { leadership, releases, signal }: Tick): Promise<void> {
  const { reserved, pods } = options.model;
  const assertLeading = () => leadership.assertHeld();
  await sweep({ ...options, reserved, pods, assertLeading, releases }, { signal });
  options.duplicates(await adoptPods({ ...options, reserved, pods }, { signal }));
}

/** An empty shard that takes nothing new is of no use; the first one stays, others look for it, and so does the last. */
export async function removeEmptyShards(
  { reserved, writes, log }: Pick<ReaperOptions, "writes" | "log"> & Pick<Model, "reserved">,
  { signal }: Abortable,
): Promise<void> {
  for (const shard of reserved.shards()) {
    const isLast = reserved.listShards(shard.pool).at(-1)?.name === shard.name;
    if (shard.index === 0 || !shard.sealed || shard.held.size > 0 || isLast) continue;
    try {
      await writes.delete(shard.name, shard.version, { signal });
      log.info({ shard: shard.name }, "empty shard removed");
    } catch (error) {
      // Another writer removed or changed it since: the next sweep looks at it again.
      if (!isFault(error, "conflict") && !isFault(error, "notFound")) throw error;
    }
  }
}
