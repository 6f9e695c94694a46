import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSet, type CocoonSet, type CocoonSetStatus } from "@cocoon/contract";
import type { SetParts } from "./parts.ts";
import { StatusWriter } from "./write-status.ts";

const signal = new AbortController().signal;
const statusDelayMs = 2_000;

function buildSet(uid: string): CocoonSet {
  const metadata = { name: uid, namespace: "n", uid, generation: 1 };
  return readCocoonSet({ metadata, spec: { agent: { image: "team/base:v1" } } });
}

/** A writer at a time that the test sets; it counts what was written. */
function writer() {
  const clock = { nowMs: 1_000_000, writes: 0 };
  const parts = {
    statusDelayMs,
    now: () => new Date(clock.nowMs),
    sets: { patch: () => Promise.resolve(void (clock.writes += 1)) },
    events: { record: () => undefined },
    metrics: {},
  } as unknown as SetParts;
  return { clock, statuses: new StatusWriter(parts) };
}

const scaling = (readyAgents: number): CocoonSetStatus => ({ phase: "Scaling", readyAgents });

test("a set that stands still is shown after the delay, one that gets on after five, one that is Running at once", async () => {
  const { clock, statuses } = writer();
  const still = buildSet("still");
  assert.equal(await statuses.writeSoon(still, scaling(1), { signal }), statusDelayMs);
  clock.nowMs += statusDelayMs;
  assert.equal(await statuses.writeSoon(still, scaling(1), { signal }), 0);
  assert.equal(clock.writes, 1);

  const moving = buildSet("moving");
  for (let step = 0; step < 20; step += 1) {
    assert.ok((await statuses.writeSoon(moving, scaling(step), { signal })) > 0);
    clock.nowMs += statusDelayMs / 4;
  }
  assert.equal(await statuses.writeSoon(moving, scaling(20), { signal }), 0);
  assert.equal(clock.writes, 2);
  await statuses.writeSoon(buildSet("fast"), { phase: "Running", readyAgents: 1 }, { signal });
  assert.equal(clock.writes, 3);
});

test("where every step takes long, standing still for that long is not shown", async () => {
  const { clock, statuses } = writer();
  const sets = Array.from({ length: 50 }, (_, index) => buildSet(`set-${index}`));
  for (let step = 0; step < 3; step += 1) {
    for (const set of sets) await statuses.writeSoon(set, scaling(step), { signal });
    clock.nowMs += statusDelayMs * 0.9;
  }
  clock.nowMs += statusDelayMs;
  for (const set of sets) assert.ok((await statuses.writeSoon(set, scaling(2), { signal })) > 0);
  assert.equal(clock.writes, 0);
  clock.nowMs += 3 * statusDelayMs;
  for (const set of sets) assert.equal(await statuses.writeSoon(set, scaling(2), { signal }), 0);
  assert.equal(clock.writes, sets.length, "what really stands still is");
});
