/** What may come next on a command line, from the command tree alone. Pure: names are looked up by their kind. */
import type { Command, Option } from "commander";
import { visibleCommands } from "../command-spec.ts";

/** What stands at a place that the tree cannot fill. */
export type NameKind = "set" | "machine" | "node" | "part" | "name" | "shell" | "what";

export interface Candidates {
  readonly words: readonly string[];
  readonly kinds: readonly NameKind[];
  /** What was typed of `--namespace`, `--kubeconfig`, `--context`, `--dir`: it decides whose names are looked up. */
  readonly options: Readonly<Record<string, string>>;
}

const passed: ReadonlySet<string> = new Set(["namespace", "kubeconfig", "context", "dir"]);

const values: Readonly<Record<string, readonly string[]>> = {
  output: ["table", "wide", "json", "yaml", "name"],
  mode: ["clone", "run"],
  os: ["linux", "windows", "android", "macos"],
  backend: ["cloud-hypervisor", "firecracker", "qemu"],
  connType: ["ssh", "rdp", "vnc", "adb"],
  snapshotPolicy: ["always", "main-only", "never"],
  hibernatePolicy: ["retain", "release"],
  dryRun: ["client", "server"],
};

const valueKinds: Readonly<Record<string, NameKind>> = { to: "node", node: "node" };

/** `typed` are the words after the program's name; the last one is being typed and may be empty. */
export function candidatesFor(typed: readonly string[], program: Command): Candidates {
  const words = typed.slice(0, -1);
  const current = typed.at(-1) ?? "";
  const options: Record<string, string> = {};
  let command = program;
  let positions = 0;
  let pending: Option | undefined;
  for (const [index, word] of words.entries()) {
    if (word === "--") return { words: [], kinds: [], options };
    if (pending) {
      if (passed.has(pending.attributeName())) options[pending.attributeName()] = word;
      pending = undefined;
      continue;
    }
    if (word.startsWith("-")) {
      pending = findOption(command, word, index);
      continue;
    }
    const sub = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (sub && positions === 0) command = sub;
    else positions += 1;
  }
  return { ...next(command, { pending, positions, current }), options };
}

/** The option that takes the next word as its value. */
function findOption(command: Command, word: string, _index: number): Option | undefined {
  if (word.includes("=")) return undefined;
  return allOptions(command).find(
    (option) => option.required && (option.short === word || option.long === word),
  );
}

function allOptions(command: Command): Option[] {
  return [...command.options, ...(command.parent ? allOptions(command.parent) : [])];
}

interface Place {
  readonly pending: Option | undefined;
  readonly positions: number;
  readonly current: string;
}

function next(command: Command, { pending, positions, current }: Place): Pick<Candidates, "words" | "kinds"> {
  if (pending) {
    const name = pending.attributeName();
    const kind = valueKinds[name];
    return { words: starting(values[name] ?? [], current), kinds: kind ? [kind] : [] };
  }
  if (current.startsWith("-")) {
    const flags = allOptions(command).flatMap(({ long, short }) => [long ?? short ?? ""]);
    return { words: starting([...flags, "--help"], current), kinds: [] };
  }
  const subcommands = positions === 0 ? visible(command) : [];
  const kind = subcommands.length > 0 ? undefined : argumentKind(command, positions);
  return { words: starting(subcommands, current), kinds: kind ? [kind] : [] };
}

function visible(command: Command): string[] {
  return visibleCommands(command).map((each) => each.name());
}

function starting(words: readonly string[], start: string): string[] {
  return words.filter((word) => word !== "" && word.startsWith(start));
}

const kinds: ReadonlySet<string> = new Set(["set", "machine", "node", "part", "name", "shell", "what"]);

/** The argument's own name says what it is. */
function argumentKind(command: Command, position: number): NameKind | undefined {
  const all = command.registeredArguments;
  const argument = all[position] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  const name = argument?.name() ?? "";
  return kinds.has(name) ? (name as NameKind) : undefined;
}
