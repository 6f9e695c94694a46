import assert from "node:assert/strict";
import { test } from "node:test";
import { TrafficError } from "./data-plane.ts";
import { WakeGate } from "./wake-gate.ts";

test("a thousand requests for one sleeping machine are one wake, and all pass", async (t) => {
  let wakes = 0;
  const waking = Promise.withResolvers<string>();
  const gate = new WakeGate<string>({ maxHeld: 1_000, holdMs: 10_000 });
  const wake = () => ((wakes += 1), waking.promise);
  const request = { key: "a/i1", wake, signal: t.signal };
  const waiting = Array.from({ length: 1_000 }, async () => {
    const { machine, turn } = await gate.pass(request);
    turn[Symbol.dispose]();
    return machine;
  });
  await assert.rejects(
    gate.pass(request),
    (error) => error instanceof TrafficError && error.status === 503 && error.retryAfterSeconds === 1,
  );
  waking.resolve("ready");
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set(["ready"]));
  assert.deepEqual([wakes, gate.held], [1, 0]);
});

test("a request that waits too long is told when to come again, and the wake goes on", async (t) => {
  const waking = Promise.withResolvers<string>();
  const gate = new WakeGate<string>({ maxHeld: 10, holdMs: 20 });
  await assert.rejects(
    gate.pass({ key: "a/i1", wake: () => waking.promise, signal: t.signal }),
    (error) => error instanceof TrafficError && error.status === 503,
  );
  waking.resolve("ready");
});
