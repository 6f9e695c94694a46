import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { ProgressLine } from "../progress-line.ts";
import { readTimeout, waitForAll, type Look } from "./wait.ts";

function recorder() {
  const shown: string[] = [];
  const printed: string[] = [];
  return {
    shown,
    printed,
    show: (text: string) => void shown.push(text),
    print: (text: string) => void printed.push(text),
  };
}

const signal = new AbortController().signal;

function script(name: string, ...looks: readonly (Look | Error)[]) {
  let step = 0;
  const look = (): Promise<Look> => {
    const next = looks[Math.min(step, looks.length - 1)];
    step += 1;
    return next instanceof Error
      ? Promise.reject(next)
      : Promise.resolve(next ?? { kind: "waiting", text: "" });
  };
  return { name, look };
}

const waiting = (text: string): Look => ({ kind: "waiting", text });
const done = (text: string): Look => ({ kind: "done", text });

test("each is announced when it is there; the others are waited for", async () => {
  const progress = recorder();
  const all = [
    script("a", waiting("1"), done("a: done")),
    script("b", waiting("1"), waiting("2"), done("b: done")),
  ];
  await waitForAll(all, { signal, timeoutMs: 10_000, progress, intervalMs: 1 });
  assert.deepEqual(progress.printed, ["a: done", "b: done"]);
  assert.deepEqual(progress.shown, ["a: 1 | b: 1", "b: 2"]);
});

test("a wait that is over says how far it came, and that the request stands", async () => {
  let clock = 0;
  const now = () => (clock += 400);
  const wait = waitForAll([script("a", waiting("half way"))], {
    signal,
    timeoutMs: 1_000,
    progress: recorder(),
    intervalMs: 1,
    now,
  });
  await assert.rejects(
    wait,
    (error) =>
      error instanceof Fault &&
      error.code === "timeout" &&
      /not done after 1 s \(a: half way\)\. The request was submitted/.test(error.message),
  );
});

test("a server that is away for a moment does not end the wait; any other failure does", async () => {
  const progress = recorder();
  const away = new Fault("unavailable", "connection refused");
  await waitForAll([script("a", away, done("a"))], { signal, timeoutMs: 10_000, progress, intervalMs: 1 });
  assert.deepEqual(progress.shown, ["a: the API server does not answer: connection refused"]);
  const refused = waitForAll([script("a", new Fault("forbidden", "no"))], {
    signal,
    timeoutMs: 10_000,
    progress,
    intervalMs: 1,
  });
  await assert.rejects(refused, /no/);
});

test("a wait that goes on names the part that is down and what stands in the way", async () => {
  let clock = 0;
  const progress = recorder();
  const slow = {
    ...script("a", waiting("Pending"), waiting("Pending"), done("a: done")),
    explain: () => Promise.resolve("a-0: push failed: no space left"),
  };
  await waitForAll([slow], {
    signal,
    timeoutMs: 60_000,
    progress,
    intervalMs: 1,
    now: () => (clock += 1_500),
    findDownParts: () => Promise.resolve("operator is down"),
  });
  assert.deepEqual(progress.shown.at(-1), "a: Pending (operator is down; a-0: push failed: no space left)");
  const blind = waitForAll([slow], {
    signal,
    timeoutMs: 5_000,
    progress,
    intervalMs: 1,
    now: () => (clock += 1_500),
    findDownParts: () => Promise.reject(new Fault("unavailable", "connection refused")),
  });
  await blind;
});

test("an abort ends the wait", async () => {
  const stop = new AbortController();
  const wait = waitForAll([script("a", waiting("x"))], {
    signal: stop.signal,
    timeoutMs: 60_000,
    progress: recorder(),
    intervalMs: 60_000,
  });
  stop.abort(new Error("stopped by SIGINT"));
  await assert.rejects(wait, /stopped by SIGINT/);
});

test("timeouts are durations, plain numbers are seconds", () => {
  assert.equal(readTimeout("90s"), 90_000);
  assert.equal(readTimeout("5m"), 300_000);
  assert.equal(readTimeout("30"), 30_000);
  for (const text of ["", "soon", "-1s", "0", "25h"])
    assert.throws(() => readTimeout(text), /--timeout/, text);
});

test("progress is one line on a terminal and one line per change elsewhere", () => {
  const out: string[] = [];
  const sink = (isTTY: boolean) => ({ isTTY, columns: 24, write: (text: string) => out.push(text) });
  {
    using plain = new ProgressLine(sink(false), sink(false));
    for (const text of ["one", "one", "two"]) plain.show(text, 0);
    plain.print("done");
  }
  assert.deepEqual(out, ["one\n", "two\n", "done\n"]);
  out.length = 0;
  {
    using terminal = new ProgressLine(sink(true), sink(true));
    terminal.show("a text that is longer than the terminal is wide", 2_500);
  }
  assert.deepEqual(out, ["\r\x1b[2K2s  a text that is long", "\r\x1b[2K"]);
});
