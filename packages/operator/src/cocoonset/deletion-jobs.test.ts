/** The jobs of terminating sets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "@cocoon/core/testing";
import { DeletionJobs } from "./deletion-jobs.ts";

const key = { namespace: "lab", name: "a" };

test("not more jobs than allowed run at a time, each once, and the end of each is reported", async () => {
  const jobs = new DeletionJobs(2);
  const ended: string[] = [];
  jobs.onEnd = ({ name }) => ended.push(name);
  const gates = new Map<string, () => void>();
  let [running, most] = [0, 0];
  const start = (uid: string) =>
    jobs.start({
      uid,
      key: { ...key, name: uid },
      run: async () => {
        most = Math.max(most, (running += 1));
        await new Promise<void>((resolve) => gates.set(uid, resolve));
        running -= 1;
      },
    });
  for (const uid of ["a", "b", "c", "a"]) start(uid);
  assert.deepEqual([...gates.keys()], ["a", "b"]);
  gates.get("a")?.();
  await new Promise(setImmediate);
  assert.deepEqual([[...gates.keys()], ended], [["a", "b", "c"], ["a"]]);
  for (const open of gates.values()) open();
  await jobs.idle();
  assert.deepEqual([most, ended], [2, ["a", "b", "c"]]);
});

test("a failure is thrown by the next start, and the job starts anew after that", async () => {
  const jobs = new DeletionJobs(1);
  let runs = 0;
  const job = {
    uid: "a",
    key,
    run: () => ((runs += 1) === 1 ? Promise.reject(new Error("down")) : Promise.resolve()),
  };
  jobs.start(job);
  await jobs.idle();
  assert.throws(() => jobs.start(job), /down/);
  jobs.start(job);
  await jobs.idle();
  assert.equal(runs, 2);
  jobs.start(job);
  await jobs.idle();
  assert.equal(runs, 3, "a job that succeeded may be needed again");
});

test("at the end what waits is left out, and what runs is awaited", async () => {
  const jobs = new DeletionJobs(1);
  const gate = Promise.withResolvers<void>();
  const done: string[] = [];
  jobs.start({ uid: "a", key, run: () => gate.promise.then(() => done.push("a")) });
  jobs.start({ uid: "b", key, run: () => Promise.resolve(done.push("b")) });
  const disposed = jobs[Symbol.asyncDispose]();
  gate.resolve();
  await disposed;
  assert.deepEqual(done, ["a"]);
});

test("while other sets come up one job runs at a time, and a pause as long as the job follows", async () => {
  const clock = new FakeClock();
  const jobs = new DeletionJobs(4, clock);
  let busy = true;
  jobs.isBusy = () => busy;
  const gates = new Map<string, () => void>();
  const run = (uid: string) => new Promise<void>((resolve) => gates.set(uid, resolve));
  for (const uid of ["a", "b", "c", "d"]) jobs.start({ uid, key, run: () => run(uid) });
  assert.deepEqual([...gates.keys()], ["a"]);
  clock.advance(200);
  gates.get("a")?.();
  await jobs.idle();
  clock.advance(199);
  assert.deepEqual([...gates.keys()], ["a"], "the next one waits");
  clock.advance(1);
  assert.deepEqual([...gates.keys()], ["a", "b"]);
  busy = false;
  gates.get("b")?.();
  await new Promise(setImmediate);
  assert.deepEqual([...gates.keys()], ["a", "b", "c", "d"], "nothing comes up any more");
  for (const open of gates.values()) open();
  await jobs.idle();
});

test("the end does not wait for a pause, and what waited is left out", async () => {
  const clock = new FakeClock();
  const jobs = new DeletionJobs(1, clock);
  jobs.isBusy = () => true;
  const gate = Promise.withResolvers<void>();
  const done: string[] = [];
  jobs.start({ uid: "a", key, run: () => gate.promise });
  jobs.start({ uid: "b", key, run: () => Promise.resolve(done.push("b")) });
  clock.advance(300);
  gate.resolve();
  await jobs.idle();
  await jobs[Symbol.asyncDispose]();
  clock.advance(1_000);
  assert.deepEqual(done, []);
});
