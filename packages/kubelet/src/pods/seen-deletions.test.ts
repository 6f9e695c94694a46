/** What is remembered of deletions, also when the storage was restored to before one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "../provider.ts";
import { SeenDeletions } from "./seen-deletions.ts";

const pod = (deletionTimestamp?: string): Pod => ({
  metadata: { namespace: "lab", name: "a", uid: "1", ...(deletionTimestamp ? { deletionTimestamp } : {}) },
  spec: { containers: [] },
});
const leaving = pod("2026-01-01T00:00:00Z");

test("a requested deletion is remembered until the pod is gone", () => {
  const seen = new SeenDeletions();
  seen.note({ kind: "updated", old: pod(), object: leaving });
  seen.markStarted(leaving);
  seen.note({ kind: "deleted", object: leaving });
  assert.equal(seen.get(leaving)?.started, true);
  assert.equal(seen.get(leaving)?.requested, true);
});

test("a pod that no longer shows its deletion was restored from before it: it has none", () => {
  const seen = new SeenDeletions();
  seen.note({ kind: "updated", old: pod(), object: leaving });
  seen.markStarted(leaving);
  seen.note({ kind: "updated", old: leaving, object: pod() });
  assert.equal(seen.get(pod()), undefined);
  // Removed by others afterwards: that nothing requested it must show.
  seen.note({ kind: "deleted", object: pod(), inferred: true });
  assert.equal(seen.get(pod())?.requested, false);
  assert.equal(seen.get(pod())?.started, false);
});
