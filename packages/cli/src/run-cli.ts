/** Runs the command that was typed and turns what it throws into a message and an exit code. */
import { isFault, getErrorMessage } from "@cocoon/core/fault";
import { CommanderError, type Command } from "commander";

/** What the program's exit code means. exec, ssh and kubectl pass the code of the command on. */
export const exitCode = {
  done: 0,
  failed: 1,
  usage: 2,
  notRunning: 3,
  timedOut: 4,
  interrupted: 130,
} as const;

export const exitCodeMeanings: Readonly<Record<keyof typeof exitCode, string>> = {
  done: "done",
  failed: "failed",
  usage: "called wrongly",
  notRunning: "the platform of this machine is not running",
  timedOut: "the time to wait was over; the request was submitted and will continue",
  interrupted: "interrupted",
};

export const exitCodeText = Object.entries(exitCode)
  .map(([name, code]) => `${code} ${exitCodeMeanings[name as keyof typeof exitCode]}`)
  .join(", ");

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
    process.stderr.write("\nInterrupted. A request that was submitted will continue.\n");
    return exitCode.interrupted;
  }
  process.stderr.write(`\nError: ${getErrorMessage(error)}\n`);
  if (isFault(error, "badRequest")) return exitCode.usage;
  return isFault(error, "timeout") ? exitCode.timedOut : exitCode.failed;
}

/** What `abortOnSignals` ends waits with. */
function isInterruption(error: unknown): boolean {
  const cause = isFault(error) ? error.cause : error;
  return cause instanceof Error && cause.message === "stopped by SIGINT";
}
