import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultLocalGc, planEviction, type CachedSnapshot } from "./local-gc.ts";

const digest = `sha256:${"a".repeat(64)}`;
const day = 24 * 3_600_000;
const now = Date.parse("2026-05-10T00:00:00Z");
const pulled = (name: string, daysOld: number, sizeBytes = 100): CachedSnapshot => ({
  id: name,
  name,
  description: digest,
  createdAt: new Date(now - daysOld * day).toISOString(),
  sizeBytes,
});
const evicted = (snapshots: readonly CachedSnapshot[], more: object = {}) =>
  planEviction(snapshots, { ...defaultLocalGc, maxBytes: 250, isInUse: () => false, now, ...more }).map(
    ({ name }) => name,
  );

test("pulled snapshots go by age, then the oldest until the rest fits", () => {
  assert.deepEqual(evicted([pulled("a", 1), pulled("b", 8)]), ["b"]);
  assert.deepEqual(evicted([pulled("a", 1), pulled("b", 2), pulled("c", 3), pulled("d", 4)]), ["d", "c"]);
  assert.deepEqual(evicted([pulled("a", 1), pulled("b", 2)]), []);
});

test("pinned ones, those of machines here, and what was not pulled are spared", () => {
  const saved = { ...pulled("vk-lab-a", 99), vmId: "VM1" };
  const { description: _none, ...byHand } = pulled("mine", 99);
  const noted = { ...pulled("noted", 99), description: "before the upgrade" };
  const isInUse = (name: string) => name === "vk-lab-b";
  const all = [saved, byHand, noted, pulled("base", 99), pulled("vk-lab-b", 99)];
  assert.deepEqual(evicted(all, { pinned: ["base"], isInUse }), []);
});
