/** A command as data: what `--help`, completions and docs/cli.md show of it, and what runs. */
import type { Command } from "commander";

/** Flags -> description, with the default value where there is one. */
export type OptionTable = Readonly<Record<string, string | readonly [description: string, fallback: string]>>;

export interface CommandSpec {
  readonly usage: string;
  readonly alias?: string;
  /** One line for the list of commands; absent: the description is short enough. */
  readonly summary?: string;
  readonly description?: string;
  readonly options?: OptionTable;
  readonly examples?: readonly string[];
  /** Called by programs, not by users. */
  readonly hidden?: boolean;
  readonly configure?: (declared: Command) => Command;
  readonly commands?: readonly CommandSpec[];
  /** Gets the arguments, then all options, those of the program included. */
  readonly run?: (...args: never[]) => void | Promise<void>;
}

/** Where the cluster is, as kubectl and its plugins name it. */
export const clusterOptions: OptionTable = {
  "-n, --namespace <name>": "namespace (default: that of the context)",
  "--kubeconfig <path>": "kubeconfig of the cluster (default: this machine's platform, else KUBECONFIG)",
  "--context <name>": "context of the kubeconfig (default: its current one)",
};

export const registryOption: OptionTable = {
  "--registry <address>":
    "registry of the snapshots (default: this machine's platform, else OCI_REGISTRY, EPOCH_URL)",
};

export function waitOptions(timeout: string): OptionTable {
  return {
    "--timeout <duration>": ["how long to wait, such as 90s or 5m; exit code 4 when it is over", timeout],
    "--no-wait": "submit the request and return at once",
  };
}

export function outputOption(formats = "table, wide, json, yaml or name"): OptionTable {
  return { "-o, --output <format>": [formats, "table"] };
}

export function addCommand(parent: Command, spec: CommandSpec, group?: string): void {
  const { usage, alias, summary, description, options = {}, examples = [], hidden = false, run } = spec;
  const declared = parent.command(usage, { hidden });
  if (group) declared.helpGroup(group);
  if (alias) declared.alias(alias);
  if (summary) declared.summary(summary);
  if (description) declared.description(description);
  spec.configure?.(declared);
  for (const [flags, row] of Object.entries(options)) declared.option(flags, ...[row].flat());
  for (const each of spec.commands ?? []) addCommand(declared, each);
  if (run)
    declared.action((...args: unknown[]) =>
      run(...([...args.slice(0, -2), (args.at(-1) as Command).optsWithGlobals()] as never[])),
    );
  if (examples.length === 0) return;
  declared.addHelpText("after", ({ command }) => {
    const name = findRoot(command).name();
    return `\nExamples:\n${examples.map((line) => `  ${line.replaceAll("cocoonctl", name)}`).join("\n")}`;
  });
}

function findRoot(command: Command): Command {
  return command.parent ? findRoot(command.parent) : command;
}

/** Commands for people: without those that programs call, and without the help command of the parser. */
export function visibleCommands(command: Command): Command[] {
  const shown = new Set(command.createHelp().visibleCommands(command));
  return command.commands.filter((each) => shown.has(each));
}
