import assert from "node:assert/strict";
import { test } from "node:test";
import { clockSleep, systemClock } from "./clock.ts";
import { FakeClock } from "./testing/fake-clock.ts";

test("the system's clock holds delays that are longer than a timer can be", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const longest = 2 ** 31 - 1;
  let fired = 0;
  systemClock.schedule(longest + 5_000, () => (fired += 1));
  const cancel = systemClock.schedule(longest + 1, () => (fired += 100));
  t.mock.timers.tick(longest);
  cancel();
  t.mock.timers.tick(4_999);
  assert.equal(fired, 0);
  t.mock.timers.tick(1);
  assert.equal(fired, 1);
});

test("a sleep ends with its time or with its signal, and leaves no timer", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const slept = clockSleep(clock, 100, stop.signal);
  const woken = clockSleep(clock, 1_000, stop.signal);
  clock.advance(100);
  stop.abort();
  assert.deepEqual(await Promise.all([slept, woken]), [true, false]);
  assert.equal(await clockSleep(clock, 100, stop.signal), false);
  assert.equal(clock.timerCount, 0);
});
