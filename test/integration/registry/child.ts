/** `epoch serve` as a process of its own, which can be killed. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { lastLines, startProgram, tryReadFile, type RunningProgram } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { Client } from "./world.ts";

const main = join(import.meta.dirname, "../../../packages/registry/src/main.ts");

export interface ChildRegistry extends AsyncDisposable {
  readonly url: string;
  readonly client: Client;
  readonly program: RunningProgram;
  readonly logFile: string;
}

export interface ChildOptions {
  readonly root: string;
  readonly logFile: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Resolves when it serves. The client has the administrator's token, which the first start leaves in the root. */
export async function startChildRegistry({
  root,
  logFile,
  args = [],
  env = {},
}: ChildOptions): Promise<ChildRegistry> {
  const before = (await tryReadFile(logFile))?.length ?? 0;
  const program = await startProgram({
    name: "epoch",
    command: process.execPath,
    args: [
      main,
      "serve",
      "--addr",
      "127.0.0.1:0",
      "--health-addr",
      "",
      "--root",
      root,
      "--gc-interval",
      "0",
      ...args,
    ],
    env,
    logFile,
  });
  await using stack = new AsyncDisposableStack();
  stack.use(program); // unless all goes well
  const url = await eventually(
    async () => {
      const found = /"url":"(https?:[^"]+)".*"registry serves"/.exec(
        (await readFile(logFile, "utf8")).slice(before),
      )?.[1];
      assert.ok(found, lastLines(logFile, 5).join("\n"));
      return found;
    },
    { timeoutMs: 60_000 },
  );
  const token = await eventually(async () => (await readFile(join(root, "admin-token"), "utf8")).trim());
  const running = stack.move();
  return {
    url,
    program,
    logFile,
    client: new Client(url, token),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
