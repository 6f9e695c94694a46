import assert from "node:assert/strict";
import { test } from "node:test";
import { aborted, orAborted, sleep, withDeadline } from "./abort.ts";
import { Backoff, backoffMs } from "./backoff.ts";

test("sleep ends early and quietly when aborted", async () => {
  const controller = new AbortController();
  const sleeping = sleep(60_000, { signal: controller.signal });
  controller.abort();
  assert.equal(await sleeping, false);
  assert.equal(await sleep(1, { signal: new AbortController().signal }), true);
  assert.equal(await sleep(1, { signal: controller.signal }), false);
  await aborted(controller.signal);
});

test("a deadline aborts with a TimeoutError, a promise is left behind when the signal aborts", async () => {
  const signal = withDeadline(new AbortController().signal, 5);
  await aborted(signal);
  assert.equal((signal.reason as Error).name, "TimeoutError");
  await assert.rejects(orAborted(new Promise(() => undefined), { signal: AbortSignal.timeout(5) }), {
    name: "TimeoutError",
  });
  assert.equal(await orAborted(Promise.resolve(7), { signal: new AbortController().signal }), 7);
});

test("back-off grows to its cap, with jitter only downwards, and starts over after a reset", () => {
  const options = { baseMs: 100, maxMs: 1_000, jitter: 0.5 };
  for (const random of [() => 0, () => 0.999, () => 0.5]) {
    for (let failures = 0; failures < 80; failures += 1) {
      const ms = backoffMs(failures, { ...options, random });
      const full = Math.min(1_000, 100 * 2 ** failures);
      assert.ok(ms <= full && ms >= full / 2);
    }
  }
  const backoff = new Backoff({ ...options, random: () => 0 });
  assert.deepEqual([backoff.nextMs(), backoff.nextMs(), backoff.nextMs()], [100, 200, 400]);
  backoff.reset();
  assert.equal(backoff.nextMs(), 100);
  assert.equal(backoff.failures, 1);
});
