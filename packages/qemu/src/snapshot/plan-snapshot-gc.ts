/** Which local snapshots go, so that they stay within their limits. Pure. */
import type { Snapshot, SnapshotLimits } from "@cocoon/vm";

/** In the order in which they are to go: least recently used first. Pinned ones count, but stay. */
export function planSnapshotGc(
  all: readonly Snapshot[],
  limits: SnapshotLimits | undefined,
  now: Date,
): readonly Snapshot[] {
  if (!limits) return [];
  const { maxBytes = Infinity, maxAgeMs = Infinity } = limits;
  const candidates = all
    .filter((snapshot) => !limits.isPinned(snapshot))
    .toSorted((one, other) => readLastUse(one) - readLastUse(other) || one.id.localeCompare(other.id));
  let bytes = all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return candidates.filter((snapshot) => {
    const isOld = now.getTime() - readLastUse(snapshot) > maxAgeMs;
    if (!isOld && bytes <= maxBytes) return false;
    bytes -= snapshot.sizeBytes;
    return true;
  });
}

function readLastUse({ lastUsedAt, createdAt }: Snapshot): number {
  return Date.parse(lastUsedAt ?? createdAt);
}
