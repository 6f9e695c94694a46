/** Where the cluster of this machine lives: `--dir`, COCOON_HOME, else the user's state directory. */
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { lockFile, type FileLock } from "@cocoon/core";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface HomeOptions {
  readonly dir?: string;
}

export function homeDirectory(options: HomeOptions, env: Environment): string {
  const fallback = join(env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state"), "cocoon");
  return resolve(options.dir ?? env["COCOON_HOME"] ?? fallback);
}

export function lockPath(directory: string): string {
  return join(directory, "lock");
}

/** Held by a command that starts or stops parts; waits for the one that holds it. */
export async function lockPlatform(directory: string, signal: AbortSignal): Promise<FileLock> {
  await mkdir(directory, { recursive: true });
  return lockFile(lockPath(directory), {
    signal,
    onWait: (holder) =>
      process.stderr.write(`Process ${holder?.pid ?? ""} is working on this cluster; waiting for it.\n`),
  });
}
