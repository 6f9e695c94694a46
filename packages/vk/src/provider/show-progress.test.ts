import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry, silentLogger } from "@cocoon/core";
import { createVkMetrics } from "../metrics.ts";
import { showProgress } from "./show-progress.ts";
import type { StepContext } from "./step-context.ts";

const mebibyte = 1024 * 1024;

test("the state of a transfer is shown every few seconds, and nothing after its end", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const messages: string[] = [];
  const announce = (report: { readonly state: string; readonly message?: string }) => {
    messages.push(`${report.state}: ${report.message}`);
    return messages.length === 2 ? Promise.reject(new Error("no API server")) : Promise.resolve(true);
  };
  const metrics = createVkMetrics(createRegistry("test"));
  const readLeft = async () => (await metrics.push_left_bytes.get()).values[0]?.value;
  const context = { tracked: { writer: { announce } }, log: silentLogger, metrics } as unknown as StepContext;
  const progress = showProgress(context, "hibernating", { signal: t.signal });
  t.mock.timers.tick(3_000);
  progress.onProgress({ phase: "reading", doneBytes: 0, totalBytes: 10 * mebibyte });
  progress.onProgress({ phase: "sending", doneBytes: mebibyte, totalBytes: 10 * mebibyte });
  t.mock.timers.tick(2_000);
  t.mock.timers.tick(1_000);
  await new Promise(setImmediate);
  progress.onProgress({ phase: "sending", doneBytes: 1, totalBytes: 10 * mebibyte });
  t.mock.timers.tick(3_000);
  t.mock.timers.tick(3_000);
  assert.equal(await readLeft(), 10 * mebibyte - 1);
  await progress[Symbol.asyncDispose]();
  assert.equal(await readLeft(), 0);
  t.mock.timers.tick(30_000);
  await new Promise(setImmediate);
  assert.deepEqual(messages, [
    "hibernating: pushing 1 of 10 MiB",
    "hibernating: pushing 1 of 10 MiB",
    "hibernating: pushing 1 of 10 MiB",
  ]);
});
