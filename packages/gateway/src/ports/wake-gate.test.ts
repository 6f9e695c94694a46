import assert from "node:assert/strict";
import { test } from "node:test";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { TrafficError } from "./data-plane.ts";
import { WakeGate } from "./wake-gate.ts";

const sandbox = { namespace: "a", id: "i1" } as Sandbox;

test("a thousand requests for one sleeping machine are one wake, and all pass", async (t) => {
  let wakes = 0;
  const wake = Promise.withResolvers<Sandbox>();
  const gate = new WakeGate({ wake: () => ((wakes += 1), wake.promise), maxHeld: 1_000, holdMs: 10_000 });
  const waiting = Array.from({ length: 1_000 }, () => gate.pass(sandbox, { signal: t.signal }));
  const beyond = gate.pass(sandbox, { signal: t.signal });
  await assert.rejects(
    beyond,
    (error) => error instanceof TrafficError && error.status === 503 && error.retryAfterSeconds === 1,
  );
  wake.resolve(sandbox);
  assert.equal(new Set(await Promise.all(waiting)).size, 1);
  assert.deepEqual([wakes, gate.held], [1, 0]);
});

test("a request that waits too long is told when to come again, and the wake goes on", async (t) => {
  const wake = Promise.withResolvers<Sandbox>();
  const gate = new WakeGate({ wake: () => wake.promise, maxHeld: 10, holdMs: 20 });
  await assert.rejects(
    gate.pass(sandbox, { signal: t.signal }),
    (error) => error instanceof TrafficError && error.status === 503,
  );
  wake.resolve(sandbox);
});
