/** Exit codes of the command line: 0 done, 1 failed, 2 called wrongly, 3 nothing is running, 130 interrupted. */
import { isFault, messageOf } from "@cocoon/core/fault";
import { CommanderError, type Command } from "commander";

export const exitCode = { done: 0, failed: 1, usage: 2, notRunning: 3, interrupted: 130 } as const;

/** Thrown by a command that has already said everything: only the exit code is left. */
export class Quit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

export async function runCli(program: Command): Promise<void> {
  program.exitOverride();
  for (const command of program.commands) command.exitOverride();
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
}

function report(error: unknown): number {
  if (error instanceof Quit) return error.code;
  // Commander has printed its own text; asking for help or the version is not a mistake.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.done : exitCode.usage;
  process.stderr.write(`\nError: ${messageOf(error)}\n`);
  return isFault(error, "badRequest") ? exitCode.usage : exitCode.failed;
}
