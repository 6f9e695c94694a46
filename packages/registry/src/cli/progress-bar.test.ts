import assert from "node:assert/strict";
import { test } from "node:test";
import { formatSize } from "./format-size.ts";
import { ProgressBar, progressText } from "./progress-bar.ts";

test("sizes are short and exact where they can be", () => {
  const sizes = [0, 1023, 1024, 1536, 1024 ** 2, 5.25 * 1024 ** 3, 2 ** 50];
  assert.deepEqual(sizes.map(formatSize), [
    "0 B",
    "1023 B",
    "1.0 KiB",
    "1.5 KiB",
    "1.0 MiB",
    "5.3 GiB",
    "1024.0 TiB",
  ]);
});

test("a bar shows phase, share, bytes and speed", () => {
  const text = progressText({ phase: "sending", doneBytes: 5 << 20, totalBytes: 10 << 20 }, 2000);
  assert.equal(text, "sending  ████████████░░░░░░░░░░░░  50%  5.0 MiB of 10.0 MiB  2.5 MiB/s");
  assert.match(progressText({ phase: "reading", doneBytes: 0, totalBytes: 0 }, 0), /0%  0 B of 0 B$/);
});

test("a bar draws now and then, keeps to the width and cleans up", () => {
  const written: string[] = [];
  let now = 0;
  const bar = new ProgressBar({ write: (text) => written.push(text), columns: 40 }, () => now);
  for (; now < 1000; now += 10) bar.update({ phase: "sending", doneBytes: now, totalBytes: 1000 });
  bar[Symbol.dispose]();
  bar[Symbol.dispose]();
  assert.equal(written.length, 11);
  assert.ok(written.every((text) => text.replace("\r\u001B[K", "").length <= 39));
  assert.equal(written.at(-1), "\r\u001B[K");
});

test("without a terminal nothing is drawn", () => {
  const bar = new ProgressBar(undefined);
  bar.update({ phase: "sending", doneBytes: 1, totalBytes: 2 });
  bar[Symbol.dispose]();
});
