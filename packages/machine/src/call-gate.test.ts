import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, isFault } from "@cocoon/core";
import { CallGate } from "./call-gate.ts";

test("only so many calls run at a time, and an aborted one gives its turn on", async ({ signal }) => {
  const gate = new CallGate({ concurrency: 2 });
  let running = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  const call = async (): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((resolve) => ends.push(resolve));
    running -= 1;
  };
  const stop = new AbortController();
  const calls = [signal, signal, stop.signal, signal].map((each) => gate.run({ signal: each }, call));
  stop.abort(new Error("enough"));
  const outcomes = Promise.allSettled(calls);
  for (let count = 0; count < 3; count += 1) {
    while (ends.length === 0) await new Promise(setImmediate);
    ends.shift()?.();
  }
  const statuses = (await outcomes).map(({ status }) => status);
  assert.deepEqual(statuses, ["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  assert.equal(most, 2);
});

test("after failures in a row calls are refused at once; a damaged snapshot is none", async ({ signal }) => {
  const gate = new CallGate({ maxFailures: 2, pauseMs: 60_000 });
  const fail = (fault: Fault) => gate.run({ signal }, () => Promise.reject(fault));
  for (let count = 0; count < 3; count += 1)
    await assert.rejects(fail(new Fault("damaged", "config missing")), /config missing/);
  await assert.rejects(fail(new Fault("unavailable", "down")), /down/);
  await assert.rejects(fail(new Fault("unavailable", "down")), /down/);
  let called = false;
  const next = gate.run({ signal }, () => Promise.resolve((called = true)));
  await assert.rejects(next, /does not answer: down/);
  assert.equal(called, false);
});

test("a call that hangs is a timeout", async ({ signal }) => {
  const gate = new CallGate({ timeoutMs: 20 });
  const hang = gate.run(
    { signal },
    ({ signal: limited }) =>
      new Promise((_resolve, reject) =>
        limited.addEventListener("abort", () => reject(limited.reason as Error), { once: true }),
      ),
  );
  await assert.rejects(hang, (error: unknown) => isFault(error, "timeout"));
});
