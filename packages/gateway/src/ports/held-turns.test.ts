import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldTurns } from "./held-turns.ts";

test("held requests go on eight at a time, in order, and each gets its turn", async (t) => {
  const turns = new HeldTurns();
  const order: number[] = [];
  let running = 0;
  let most = 0;
  const serve = async (index: number) => {
    using _turn = await turns.take("a/i1", t);
    order.push(index);
    most = Math.max(most, (running += 1));
    await new Promise(setImmediate);
    running -= 1;
  };
  await Promise.all(Array.from({ length: 100 }, (_, index) => serve(index)));
  assert.equal(most, 8);
  assert.deepEqual(
    order,
    Array.from({ length: 100 }, (_, index) => index),
  );
});

test("a request that is not answered does not hold up the others, nor does one that is given up", async (t) => {
  const turns = new HeldTurns({ turnMs: 10 });
  const left = new AbortController();
  const kept = await Promise.all(Array.from({ length: 8 }, () => turns.take("a/i1", t)));
  const abandoned = assert.rejects(turns.take("a/i1", left));
  const next = turns.take("a/i1", t);
  left.abort(new Error("left"));
  await abandoned;
  (await next)[Symbol.dispose]();
  for (const each of kept) each[Symbol.dispose]();
  const again = await Promise.all(Array.from({ length: 8 }, () => turns.take("a/i1", t)));
  for (const each of again) each[Symbol.dispose]();
});
