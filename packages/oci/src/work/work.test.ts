import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { describe, it } from "node:test";
import fc from "fast-check";
import { MemoryBudget } from "./memory-budget.ts";
import { forEachParallel, mapOrdered } from "./parallel.ts";
import { TaskGroup } from "./task-group.ts";

describe("memory budget", () => {
  it("is never exceeded, and every request gets a turn", async ({ signal }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 100 }), { maxLength: 40 }), async (requests) => {
        const budget = new MemoryBudget(100);
        await Promise.all(
          requests.map(async (bytes) => {
            using _room = await budget.acquire(bytes, { signal });
            assert.ok(budget.usedBytes <= 100);
            await Promise.resolve();
          }),
        );
        assert.equal(budget.usedBytes, 0);
      }),
    );
  });

  it("serves in the order of asking", async ({ signal }) => {
    const budget = new MemoryBudget(10);
    const order: number[] = [];
    const first = await budget.acquire(8, { signal });
    const waiting = [5, 1].map(async (bytes) => {
      const room = await budget.acquire(bytes, { signal });
      order.push(bytes);
      return room;
    });
    await delay(1);
    assert.deepEqual(order, [], "a small request does not overtake a large one");
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    await Promise.all(waiting);
    assert.deepEqual(order, [5, 1]);
    assert.equal(budget.usedBytes, 6);
  });

  it("lets one thing in that is larger than everything, alone", async ({ signal }) => {
    const budget = new MemoryBudget(10);
    const small = await budget.acquire(1, { signal });
    let admitted = false;
    const large = budget.acquire(50, { signal }).then((room) => ((admitted = true), room));
    await delay(1);
    assert.equal(admitted, false);
    small[Symbol.dispose]();
    (await large)[Symbol.dispose]();
    assert.equal(budget.usedBytes, 0);
  });

  it("forgets who stopped waiting", async ({ signal }) => {
    const budget = new MemoryBudget(10);
    const held = await budget.acquire(10, { signal });
    const stop = new AbortController();
    const left = budget.acquire(10, { signal: stop.signal });
    const next = budget.acquire(3, { signal });
    stop.abort(new Error("enough"));
    await assert.rejects(left, /enough/);
    held[Symbol.dispose]();
    (await next)[Symbol.dispose]();
    assert.equal(budget.usedBytes, 0);
  });
});

describe("parallel work", () => {
  it("keeps the order and the width", async () => {
    let [running, most] = [0, 0];
    const results = mapOrdered([5, 1, 4, 2, 3, 0], 3, async (ms) => {
      running += 1;
      most = Math.max(most, running);
      await delay(ms);
      running -= 1;
      return ms;
    });
    assert.deepEqual(await Array.fromAsync(results), [5, 1, 4, 2, 3, 0]);
    assert.equal(most, 3);
  });

  it("waits for what is under way before it fails", async () => {
    let running = 0;
    const work = async (item: number): Promise<number> => {
      running += 1;
      await delay(item === 1 ? 1 : 20);
      running -= 1;
      if (item === 1) throw new Error("one");
      return item;
    };
    await assert.rejects(Array.fromAsync(mapOrdered([0, 1, 2, 3, 4, 5], 3, work)), /one/);
    assert.equal(running, 0);
    await assert.rejects(
      forEachParallel([0, 1, 2, 3, 4, 5], 3, async (item) => void (await work(item))),
      /one/,
    );
    assert.equal(running, 0);
  });

  it("a slow consumer holds the workers back", async () => {
    let started = 0;
    const results = mapOrdered(
      Array.from({ length: 100 }, (_, at) => at),
      4,
      async () => {
        started += 1;
      },
    );
    await results.next();
    await delay(5);
    assert.ok(started <= 5);
    await results.return();
  });

  it("a group stops taking work after a failure and tells it", async () => {
    const group = new TaskGroup(2);
    await group.start(async () => {
      throw new Error("broken");
    });
    await delay(1);
    await assert.rejects(
      group.start(async () => undefined),
      /broken/,
    );
    await assert.rejects(group.finish(), /broken/);
    await group.settled();
  });
});
