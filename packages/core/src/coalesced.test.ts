import assert from "node:assert/strict";
import { test } from "node:test";
import { Coalesced } from "./coalesced.ts";

test("answers are newer than their calls, and at most two lookups run for any number of them", async () => {
  let started = 0;
  const gates: (() => void)[] = [];
  const coalesced = new Coalesced(async () => {
    const number = (started += 1);
    await new Promise<void>((resolve) => gates.push(resolve));
    return number;
  });
  const first = coalesced.get();
  const others = [coalesced.get(), coalesced.get(), coalesced.get()];
  assert.equal(started, 1);
  gates.shift()?.();
  assert.equal(await first, 1);
  await new Promise(setImmediate);
  gates.shift()?.();
  assert.deepEqual(await Promise.all(others), [2, 2, 2]);
  const later = coalesced.get();
  gates.shift()?.();
  assert.equal(await later, 3);
});

test("a failure reaches the callers that wait for it, and the next one tries again", async () => {
  let attempts = 0;
  const coalesced = new Coalesced(() => {
    attempts += 1;
    return attempts === 1 ? Promise.reject(new Error("away")) : Promise.resolve(attempts);
  });
  const first = coalesced.get();
  const second = coalesced.get();
  await assert.rejects(first, /away/);
  assert.equal(await second, 2);
});
