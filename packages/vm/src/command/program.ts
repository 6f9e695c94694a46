/** The command tree of `cocoon`, and how it ends: 0 done, 1 for any error, the guest's own code for `vm exec`. */
import { arch, platform } from "node:os";
import { buildInfo, messageOf } from "@cocoon/core";
import { Command, CommanderError } from "commander";
import { completionScript } from "./completion.ts";
import { runDoctor } from "./doctor.ts";
import { addImageCommands } from "./image-commands.ts";
import { Quit } from "./quit.ts";
import type { Open } from "./reports.ts";
import { CommandSession, type CommandIo } from "./session.ts";
import { readSettings, type GlobalFlags } from "./settings.ts";
import { addSnapshotCommands } from "./snapshot-commands.ts";
import { addVmCommands } from "./vm-commands.ts";

/** Runs one command line; returns the exit code. Data goes to stdout, everything else to stderr. */
export async function runCocoon(argv: readonly string[], io: CommandIo): Promise<number> {
  try {
    await cocoonProgram(io).parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    return exitCodeOf(error, io);
  }
}

function exitCodeOf(error: unknown, io: CommandIo): number {
  if (error instanceof Quit) return error.code;
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    io.stderr.write(`Error: ${error.message.replace(/^error: /, "")}\n`);
    return 1;
  }
  io.stderr.write(`Error: ${io.signal.aborted ? "interrupted" : messageOf(error)}\n`);
  return 1;
}

function cocoonProgram(io: CommandIo): Command {
  const program = new Command("cocoon")
    .description("MicroVM engine")
    .option("--config <file>", "settings file")
    .option("--root-dir <directory>", "where everything is kept (COCOON_ROOT_DIR, /var/lib/cocoon)")
    .option("--run-dir <directory>", "accepted, not used: everything is below the root directory")
    .option("--log-dir <directory>", "accepted, not used: everything is below the root directory")
    .option("--cni-conf-dir <directory>", "accepted, not used")
    .option("--cni-bin-dir <directory>", "accepted, not used")
    .option("--dns <list>", "DNS servers (COCOON_DNS, 8.8.8.8,1.1.1.1)")
    .option("--log-level <level>", "info");
  const open: Open = (command) =>
    new CommandSession(io, readSettings(command.optsWithGlobals<GlobalFlags>(), io.env));
  addImageCommands(program, open);
  addVmCommands(program, open);
  addSnapshotCommands(program, open);
  addOthers(program, open);
  quiet(program, io);
  return program;
}

function addOthers(program: Command, open: Open): void {
  program
    .command("gc")
    .option("--snapshot", "accepted, not used")
    .description("remove what nothing refers to")
    .action(async (_flags: unknown, command: Command) => {
      await using session = open(command);
      const report = await (await session.runtime()).gc(session);
      session.say(
        `gc: ${report.images.removed.length} blobs removed, ${report.images.freedBytes} bytes freed`,
      );
    });
  program
    .command("version")
    .description("version and build")
    .action((_flags: unknown, command: Command) => {
      const { version, revision, builtAt } = buildInfo();
      const lines = [
        `Version:        ${version}`,
        `Git hash:       ${revision}`,
        `Built:          ${builtAt}`,
        `Golang version: none (Node.js ${process.version})`,
        `OS/Arch:        ${platform()}/${arch() === "x64" ? "amd64" : arch()}`,
      ];
      open(command).print(`${lines.join("\n")}\n`);
    });
  program
    .command("doctor")
    .description("what this host has and lacks")
    .action(async (_flags: unknown, command: Command) => {
      await using session = open(command);
      await runDoctor(session);
    });
  program
    .command("completion")
    .argument("<shell>", "bash, zsh, fish or powershell")
    .description("a completion script for the shell")
    .action((shell: string, _flags: unknown, command: Command) => {
      open(command).print(completionScript(shell, program));
    });
}

/** No usage dump on mistakes, and nothing written past our streams. */
function quiet(command: Command, io: CommandIo): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => void io.stdout.write(text),
    writeErr: () => undefined,
  });
  for (const child of command.commands) quiet(child, io);
}
