/** Runs the command that was typed and turns what it throws into a message and an exit code. */
import { isFault, messageOf } from "@cocoon/core/fault";
import { CommanderError, type Command } from "commander";
import { exitCode } from "./exit-codes.ts";

export { exitCode } from "./exit-codes.ts";

/** Thrown by a command that has already said everything: only the exit code is left. */
export class Quit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

export async function runCli(program: Command): Promise<void> {
  overrideExits(program);
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
}

function overrideExits(command: Command): void {
  command.exitOverride();
  for (const each of command.commands) overrideExits(each);
}

function report(error: unknown): number {
  if (error instanceof Quit) return error.code;
  // Commander has printed its own text; asking for help or the version is not a mistake.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.done : exitCode.usage;
  if (isInterruption(error)) {
    process.stderr.write("\nInterrupted. What was asked for stays asked.\n");
    return exitCode.interrupted;
  }
  process.stderr.write(`\nError: ${messageOf(error)}\n`);
  if (isFault(error, "badRequest")) return exitCode.usage;
  return isFault(error, "timeout") ? exitCode.timedOut : exitCode.failed;
}

/** What `abortOnSignals` ends waits with. */
function isInterruption(error: unknown): boolean {
  const cause = isFault(error) ? error.cause : error;
  return cause instanceof Error && cause.message === "stopped by SIGINT";
}
