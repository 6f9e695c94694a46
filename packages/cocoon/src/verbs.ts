/** Commands as data: what they are called, which flags they take, what they do with an open session. */
import type { Command } from "commander";
import type { CommandSession } from "./session.ts";

/** Flags -> description, with the default value where there is one. */
export type FlagTable = Readonly<Record<string, string | readonly [description: string, fallback: string]>>;

export interface Verb {
  /** Name and arguments. */
  readonly usage: string;
  readonly alias?: string;
  readonly description: string;
  readonly flags?: FlagTable;
  readonly configure?: (declared: Command) => Command;
  /** Gets the arguments, then the flags. */
  readonly run: (session: CommandSession, ...args: never[]) => unknown;
}

export type Open = (command: Command) => CommandSession;

export const outputFlag: FlagTable = { "-o, --output <format>": "" };
export const listFlag: FlagTable = { "-o, --format <format>": ["table or json", "table"] };

export function addVerbs(parent: Command, open: Open, verbs: readonly Verb[]): void {
  for (const { usage, alias, description, flags = {}, configure, run } of verbs) {
    const declared = parent.command(usage).description(description);
    if (alias) declared.alias(alias);
    for (const [name, row] of Object.entries(flags)) declared.option(name, ...[row].flat());
    configure?.(declared);
    declared.action(async (...args: unknown[]) => {
      await using session = open(args.at(-1) as Command);
      await run(session, ...(args.slice(0, -1) as never[]));
    });
  }
}

/** For flags that may be repeated. */
export function collect(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}
