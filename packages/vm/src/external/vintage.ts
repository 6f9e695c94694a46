/**
 * Which `cocoon` answers, and what it can do. The table is data: verbs and flags of each vintage, flags in the order in which
 * clients of that vintage give them. A flag that the command's own help does not name is not sent either.
 */
import type { Abortable } from "@cocoon/core";
import { run, type CocoonCommand } from "./command.ts";

/** `base`: 0.3.x. `newest`: 0.5 and later. `node`: the `cocoon` of this project, over the built-in engine. */
export type VintageName = "base" | "newest" | "node";

export interface Vintage {
  readonly name: VintageName;
  readonly version: string;
  readonly verbs: ReadonlySet<string>;
  readonly run: readonly string[];
  readonly clone: readonly string[];
}

type Row = Omit<Vintage, "name" | "version">;

const policy = ["--cpu-weight", "--cpu-quota-us", "--cpu-period-us"];
const network = ["--network", "--queue-size"];
const runTail = [...network, "--nics", "--windows", "--fc", "--no-direct-io", "--user", "--data-disk"];
const sizes = ["--cpu", "--memory", "--storage"];

export const vintages: Readonly<Record<VintageName, Row>> = {
  base: {
    verbs: new Set(),
    run: [...sizes, ...runTail],
    clone: [...sizes, ...network, "--nics", "--no-direct-io", "--pull", "--on-demand"],
  },
  newest: {
    verbs: new Set(["exec", "logs", "net"]),
    run: ["--cpu", ...policy, "--memory", "--storage", ...runTail],
    clone: [...network, "--no-direct-io", "--pull", "--restore-mode", "--nics", ...policy],
  },
  node: {
    verbs: new Set(["exec", "logs", "pause", "resume", "reset"]),
    run: ["--cpu", ...policy, "--memory", "--storage", ...runTail, "--display"],
    clone: [...sizes, ...network, "--no-direct-io", "--pull", "--restore-mode", "--nics", ...policy],
  },
};

/** `unavailable` when the command cannot be started, `forbidden` when sudo requires a password. */
export async function detectVintage(command: CocoonCommand, options: Abortable): Promise<Vintage> {
  const [version, vm, clone, running] = await Promise.all([
    run(command, ["version"], options),
    readHelp(command, ["vm"], options),
    readHelp(command, ["vm", "clone"], options),
    readHelp(command, ["vm", "run"], options),
  ]);
  return chooseVintage({ version, vm, clone, run: running });
}

export interface CommandTexts {
  /** Output of `cocoon version`. */
  readonly version: string;
  /** Help of `vm`, `vm clone` and `vm run`; "" when there is none. */
  readonly vm: string;
  readonly clone: string;
  readonly run: string;
}

export function chooseVintage(texts: CommandTexts): Vintage {
  const { version } = texts;
  const name = isNodeCommand(version) ? "node" : mentions(texts.clone, "--restore-mode") ? "newest" : "base";
  const row = vintages[name];
  const known = (flags: readonly string[], help: string) =>
    help === "" ? flags : flags.filter((flag) => mentions(help, flag));
  return {
    name,
    version: /^Version:\s*(\S+)/m.exec(version)?.[1] ?? "unknown",
    verbs: new Set([...row.verbs].filter((verb) => new RegExp(`^\\s+${verb}\\b`, "m").test(texts.vm))),
    run: known(row.run, texts.run),
    clone: known(row.clone, texts.clone),
  };
}

/** The `cocoon` of this project works on the files of the built-in engine, not on those of the Go command. */
export function isNodeCommand(version: string): boolean {
  return /Node\.js/.test(version);
}

/** `--cpu-weight` does not mention `--cpu`. */
function mentions(help: string, flag: string): boolean {
  return new RegExp(`${flag}(?![\\w-])`).test(help);
}

/** A verb that does not exist has no help. */
async function readHelp(
  command: CocoonCommand,
  words: readonly string[],
  options: Abortable,
): Promise<string> {
  try {
    return await run(command, [...words, "--help"], options);
  } catch {
    options.signal.throwIfAborted();
    return "";
  }
}
