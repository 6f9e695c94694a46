/** What an external `cocoon` can do, found out from its own help: flags and verbs differ between vintages. */
import type { Abortable } from "@cocoon/core";
import { run, type CocoonCommand } from "./command.ts";

export interface Vintage {
  readonly version: string;
  /** Sizes on `vm clone`: the older generation has them, the newest does not. */
  readonly cloneSizes: boolean;
  /** `--on-demand` (older) or `--restore-mode` (newest) on `vm clone`. */
  readonly cloneMode: "on-demand" | "restore-mode" | "none";
  readonly cloneFromDirectory: boolean;
  readonly exec: boolean;
  readonly logs: boolean;
  /** Ours only. */
  readonly consoleLogs: boolean;
  readonly pause: boolean;
  readonly reset: boolean;
  readonly display: boolean;
}

/** Asks the command. `unavailable` when it cannot be started, `forbidden` when sudo wants a password. */
export async function detectVintage(command: CocoonCommand, options: Abortable): Promise<Vintage> {
  const [version, verbs, clone, running, logs] = await Promise.all([
    run(command, ["version"], options),
    help(command, ["vm"], options),
    help(command, ["vm", "clone"], options),
    help(command, ["vm", "run"], options),
    help(command, ["vm", "logs"], options),
  ]);
  const has = (verb: string) => new RegExp(`^\\s+${verb}\\b`, "m").test(verbs);
  return {
    version: /^Version:\s*(\S+)/m.exec(version)?.[1] ?? "unknown",
    cloneSizes: /--cpu\b/.test(clone),
    cloneMode: /--restore-mode\b/.test(clone)
      ? "restore-mode"
      : /--on-demand\b/.test(clone)
        ? "on-demand"
        : "none",
    cloneFromDirectory: /--from-dir\b/.test(clone),
    exec: has("exec"),
    logs: has("logs"),
    consoleLogs: /--console\b/.test(logs),
    pause: has("pause") && has("resume"),
    reset: has("reset"),
    display: /--display\b/.test(running),
  };
}

/** A verb that does not exist has no help. */
async function help(command: CocoonCommand, words: readonly string[], options: Abortable): Promise<string> {
  try {
    return await run(command, [...words, "--help"], options);
  } catch {
    options.signal.throwIfAborted();
    return "";
  }
}
