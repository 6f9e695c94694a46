/**
 * Bounds what a node keeps on its disk: snapshots that were pulled as bases for clones, by size and age, and what the runtime
 * itself no longer needs. Only snapshots that were pulled from the registry are removed: they can be pulled again. Those of
 * machines on this node and pinned ones stay.
 */
import { getErrorMessage, isFault, sleep, type Abortable, type Logger } from "@cocoon/core";
import { isDigest } from "@cocoon/contract";
import type { Snapshot, VmRuntime } from "@cocoon/vm";
import type { NodeSnapshots } from "./node-snapshots.ts";
import type { VkMetrics } from "./metrics.ts";

export interface LocalGcSettings {
  /** 0: never. */
  readonly intervalMs: number;
  /** Of all pulled snapshots together. */
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** Names that stay. */
  readonly pinned: readonly string[];
}

export const defaultLocalGc: LocalGcSettings = {
  intervalMs: 600_000,
  maxBytes: 20 * 1024 ** 3,
  maxAgeMs: 7 * 24 * 3_600_000,
  pinned: [],
};

export type CachedSnapshot = Pick<
  Snapshot,
  "id" | "name" | "description" | "createdAt" | "sizeBytes" | "vmId"
>;

/** Pulled from the registry: its description is the digest it came from. */
function isPulled({ description, vmId }: CachedSnapshot): boolean {
  return vmId === undefined && description !== undefined && isDigest(description);
}

/** What to remove: pulled snapshots beyond the age, then the oldest until the rest fits. Pure. */
export function planEviction(
  snapshots: readonly CachedSnapshot[],
  {
    maxBytes,
    maxAgeMs,
    pinned,
    isInUse,
    now,
  }: LocalGcSettings & {
    /** By a machine on this node. */
    readonly isInUse: (name: string) => boolean;
    readonly now: number;
  },
): readonly CachedSnapshot[] {
  const removable = snapshots
    .filter((each) => isPulled(each) && !isInUse(each.name) && !pinned.includes(each.name))
    .sort((left, right) => left.createdAt.localeCompare(right.createdAt));
  let bytes = removable.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return removable.filter(({ createdAt, sizeBytes }) => {
    const old = now - Date.parse(createdAt) > maxAgeMs;
    if (!old && bytes <= maxBytes) return false;
    bytes -= sizeBytes;
    return true;
  });
}

export interface LocalGcOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly settings: LocalGcSettings;
  /** Without a registry there are none. */
  readonly snapshots: Pick<NodeSnapshots, "unpin" | "chunkStats"> | undefined;
  /** Whether a machine on this node needs the snapshot of that name. */
  readonly isInUse: (name: string) => boolean;
  readonly metrics: VkMetrics;
  readonly log: Logger;
}

/** Runs until the signal aborts; a failed pass is logged and repeated at the next interval. */
export async function runLocalGc(options: LocalGcOptions): Promise<void> {
  const { settings, signal, log } = options;
  if (settings.intervalMs === 0) return;
  while (await sleep(settings.intervalMs, { signal })) {
    try {
      await collect(options);
    } catch (error) {
      if (!signal.aborted) log.warn({ error: getErrorMessage(error) }, "local garbage collection failed");
    }
  }
}

async function collect(options: LocalGcOptions): Promise<void> {
  const { runtime, settings, isInUse, metrics, log, signal } = options;
  const snapshots = await runtime.snapshots.list({ signal });
  const removed = planEviction(snapshots, { ...settings, isInUse, now: Date.now() });
  for (const { id, name, sizeBytes } of removed) {
    if (!(await tryRemove(runtime, id, signal))) continue;
    metrics.local_removed_total.inc({ kind: "snapshot" });
    log.info({ snapshot: name, bytes: sizeBytes }, "local snapshot removed");
  }
  const kept = snapshots.filter((each) => !removed.includes(each));
  metrics.local_snapshot_bytes.set(kept.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
  options.snapshots?.unpin((vmName) => !isInUse(vmName));
  metrics.chunk_store_bytes.set(options.snapshots?.chunkStats?.bytes ?? 0);
  const { images, removedDirectories } = await runtime.gc({ signal });
  metrics.local_removed_total.inc({ kind: "image" }, images.removed.length);
  if (images.removed.length > 0 || removedDirectories.length > 0)
    log.info({ images: images.removed.length, bytes: images.freedBytes }, "unused images removed");
}

/** False: the engine says that a VM reads it. */
async function tryRemove(runtime: VmRuntime, id: string, signal: AbortSignal): Promise<boolean> {
  try {
    await runtime.snapshots.remove(id, { signal });
    return true;
  } catch (error) {
    if (isFault(error, "conflict")) return false;
    throw error;
  }
}
