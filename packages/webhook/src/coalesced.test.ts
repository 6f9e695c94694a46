import assert from "node:assert/strict";
import { test } from "node:test";
import { Coalesced } from "./coalesced.ts";

test("answers are younger than the questions, and there are at most two for any number of them", async () => {
  let started = 0;
  const gates: (() => void)[] = [];
  const coalesced = new Coalesced(async () => {
    const number = (started += 1);
    await new Promise<void>((resolve) => gates.push(resolve));
    return number;
  });
  const first = coalesced.ask();
  const others = [coalesced.ask(), coalesced.ask(), coalesced.ask()];
  assert.equal(started, 1);
  gates.shift()?.();
  assert.equal(await first, 1);
  await new Promise(setImmediate);
  gates.shift()?.();
  assert.deepEqual(await Promise.all(others), [2, 2, 2]);
  const later = coalesced.ask();
  gates.shift()?.();
  assert.equal(await later, 3);
});

test("a failure is told to those who wait for it, and the next one tries again", async () => {
  let attempts = 0;
  const coalesced = new Coalesced(() => {
    attempts += 1;
    return attempts === 1 ? Promise.reject(new Error("away")) : Promise.resolve(attempts);
  });
  const first = coalesced.ask();
  const second = coalesced.ask();
  await assert.rejects(first, /away/);
  assert.equal(await second, 2);
});
