/** A platform's state directory for one test, and the commands of README in it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { markedProcesses } from "@cocoon/controlplane";
import { runCommand, temporaryDirectory, type CommandResult } from "@cocoon/testkit";

export const root = join(import.meta.dirname, "..", "..");

/** A state directory of its own; whatever still runs there ends, and is removed, before the directory is. */
export async function newHome(): Promise<{ readonly path: string } & AsyncDisposable> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "home");
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      await npm(path, "down");
      assert.deepEqual(markedProcesses(path), []);
      await directory[Symbol.asyncDispose]();
    },
  };
}

export function npm(home: string, ...args: string[]): Promise<CommandResult> {
  return runCommand("npm", ["run", "--silent", ...args], {
    cwd: root,
    env: { COCOON_HOME: home },
    timeoutMs: 300_000,
  });
}
