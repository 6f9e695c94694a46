/** A platform's state directory for one test, and the commands of README in it. */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
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

/**
 * The environment of a person who has only that platform: a home and a place for temporary files beside it, in which
 * everything that is left behind is seen.
 */
export async function personalEnvironment(home: string): Promise<Record<string, string>> {
  const [personal, temporary] = ["person", "tmp"].map((name) => join(dirname(home), name)) as [
    string,
    string,
  ];
  await Promise.all([personal, temporary].map((path) => mkdir(path, { recursive: true })));
  return {
    COCOON_HOME: home,
    HOME: personal,
    TMPDIR: temporary,
    XDG_CACHE_HOME: process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"),
  };
}

export function npm(home: string, ...args: string[]): Promise<CommandResult> {
  return runCommand("npm", ["run", "--silent", ...args], {
    cwd: root,
    env: { COCOON_HOME: home },
    timeoutMs: 900_000,
  });
}
