import assert from "node:assert/strict";
import { test } from "node:test";
import { SingleFlight } from "./single-flight.ts";

test("callers of one key share one run, and none fails because another was first", async ({ signal }) => {
  const flights = new SingleFlight<number>();
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const work = async () => {
    runs += 1;
    await gate.promise;
    return runs;
  };
  const calls = [1, 2, 3].map(() => flights.run("base", { signal }, work));
  gate.resolve();
  assert.deepEqual(await Promise.all(calls), [1, 1, 1]);
  assert.equal(await flights.run("base", { signal }, work), 2, "a later caller starts anew");
});

test("a caller that is aborted leaves the run to the others; the last one ends it", async ({ signal }) => {
  const flights = new SingleFlight<string>();
  const gate = Promise.withResolvers<void>();
  let stopped = false;
  const work = async ({ signal: shared }: { signal: AbortSignal }) => {
    shared.addEventListener("abort", () => (stopped = true));
    await gate.promise;
    return "done";
  };
  const stop = new AbortController();
  const first = flights.run("base", { signal: stop.signal }, work);
  const second = flights.run("base", { signal }, work);
  stop.abort(new Error("enough"));
  await assert.rejects(first, /enough/);
  assert.equal(stopped, false);
  const alone = new AbortController();
  const third = flights.run("other", { signal: alone.signal }, work);
  alone.abort(new Error("enough"));
  await assert.rejects(third, /enough/);
  assert.equal(stopped, true);
  gate.resolve();
  assert.equal(await second, "done");
});
