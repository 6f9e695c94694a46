import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Snapshot } from "@cocoon/vm";
import { planSnapshotGc } from "./plan-snapshot-gc.ts";

const now = new Date("2026-01-10T00:00:00Z");
const hour = 3_600_000;

function snapshot(id: string, hoursAgo: number, sizeBytes: number): Snapshot {
  return {
    id,
    name: id,
    hypervisor: "qemu",
    config: { cpus: 1, memoryBytes: 1, storageBytes: 1, os: "linux", labels: {} },
    nics: 0,
    imageBlobIds: [],
    createdAt: new Date(0).toISOString(),
    lastUsedAt: new Date(now.getTime() - hoursAgo * hour).toISOString(),
    sizeBytes,
  };
}

test("the least recently used go until the rest fits, pinned ones stay", () => {
  const all = [
    snapshot("new", 1, 40),
    snapshot("old", 9, 40),
    snapshot("pinned", 99, 40),
    snapshot("mid", 5, 40),
  ];
  const isPinned = ({ name }: Snapshot) => name === "pinned";
  const plan = (limits: object) => planSnapshotGc(all, { isPinned, ...limits }, now).map(({ id }) => id);
  assert.deepEqual(plan({}), []);
  assert.deepEqual(plan({ maxBytes: 160 }), []);
  assert.deepEqual(plan({ maxBytes: 100 }), ["old", "mid"]);
  assert.deepEqual(plan({ maxAgeMs: 6 * hour }), ["old"]);
  assert.deepEqual(plan({ maxBytes: 0 }), ["old", "mid", "new"]);
});

test("what stays is within the limit unless pinned ones alone exceed it", () => {
  const any = fc.array(fc.record({ hours: fc.nat(100), bytes: fc.nat(1000), pinned: fc.boolean() }), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(any, fc.nat(5000), (rows, maxBytes) => {
      const all = rows.map(({ hours, bytes }, index) => snapshot(String(index), hours, bytes));
      const isPinned = ({ id }: Snapshot) => rows[Number(id)]?.pinned ?? false;
      const gone = new Set(planSnapshotGc(all, { maxBytes, isPinned }, now));
      const kept = all.filter((each) => !gone.has(each));
      const bytes = (list: readonly Snapshot[]) => list.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      assert.ok(![...gone].some(isPinned));
      assert.ok(bytes(kept) <= maxBytes || kept.every(isPinned));
    }),
  );
});
