/** `vm status --event`: what clients see of a VM that a `vm rm` removes. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { tryIdentify } from "@cocoon/core";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import type { CommandSession } from "../session.ts";
import { showStatus } from "./status-command.ts";

interface Stream extends AsyncDisposable {
  readonly runtime: FakeRuntime;
  readonly rootDir: string;
  /** Event and state, oldest first. */
  readonly lines: readonly { readonly text: string; readonly atMs: number }[];
}

async function openStream(): Promise<Stream> {
  const directory = await temporaryDirectory();
  const runtime = new FakeRuntime(new FakeHost({ directory: directory.path }));
  await runtime.run({ name: "old", image: "demo" }, { signal: new AbortController().signal });
  const stop = new AbortController();
  const lines: { text: string; atMs: number }[] = [];
  const session = {
    signal: stop.signal,
    settings: { rootDir: directory.path },
    runtime: () => Promise.resolve(runtime),
    print: (text: string) => {
      const { event, vm } = JSON.parse(text) as { event: string; vm: { config: { name: string } } };
      lines.push({ text: `${event} ${vm.config.name}`, atMs: performance.now() });
    },
  } as unknown as CommandSession;
  const running = showStatus(session, [], { interval: "5", event: true, format: "json" });
  await eventually(() => assert.equal(lines.length, 1));
  return {
    runtime,
    rootDir: directory.path,
    lines,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
      await directory[Symbol.asyncDispose]();
    },
  };
}

test("a VM is reported as DELETED only after the process that removes it has ended, and 200 ms later", async ({
  signal,
}) => {
  await using stream = await openStream();
  const { runtime, rootDir, lines } = stream;
  const { id } = await runtime.inspect("old", { signal });
  const remover = spawn("sleep", ["60"]);
  await once(remover, "spawn");
  await mkdir(join(rootDir, "removing"));
  await writeFile(join(rootDir, "removing", id), JSON.stringify(tryIdentify(remover.pid ?? 0)));
  await runtime.remove(id, { force: true, signal });
  // Others are reported meanwhile: the stream lives.
  await runtime.run({ name: "other", image: "demo" }, { signal });
  await eventually(() => assert.equal(lines.at(-1)?.text, "ADDED other"));
  assert.deepEqual(
    lines.map(({ text }) => text),
    ["ADDED old", "ADDED other"],
  );
  const ended = once(remover, "exit");
  remover.kill("SIGKILL");
  await ended;
  const endedMs = performance.now();
  await eventually(() => assert.equal(lines.at(-1)?.text, "DELETED old"));
  assert.ok((lines.at(-1)?.atMs ?? 0) - endedMs >= 150, "not before its client could take note");
});

test("changes that follow each other at once are one event", async ({ signal }) => {
  await using stream = await openStream();
  const { runtime, lines } = stream;
  await runtime.stop("old", { signal, force: true });
  await runtime.start("old", { signal });
  await runtime.stop("old", { signal, force: true });
  await eventually(() => assert.equal(lines.length, 2));
  await runtime.run({ name: "mark", image: "demo" }, { signal });
  await eventually(() => assert.equal(lines.at(-1)?.text, "ADDED mark"));
  assert.deepEqual(
    lines.map(({ text }) => text),
    ["ADDED old", "MODIFIED old", "ADDED mark"],
  );
});
