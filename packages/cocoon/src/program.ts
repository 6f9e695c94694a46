/** The command tree of `cocoon`, and how it ends: 0 done, 1 for any error, the guest's own code for `vm exec`. */
import { arch, platform } from "node:os";
import { buildInfo, getErrorMessage, stateDefaults } from "@cocoon/core";
import { Command, CommanderError } from "commander";
import { completionScript } from "./completion.ts";
import { runDoctor } from "./commands/doctor.ts";
import { imageVerbs } from "./commands/image-commands.ts";
import { Quit } from "./quit.ts";
import { CommandSession, type CommandIo } from "./session.ts";
import { readSettings, type GlobalFlags } from "./settings.ts";
import { snapshotVerbs } from "./commands/snapshot-commands.ts";
import { vmVerbs } from "./commands/vm-commands.ts";
import { addVerbs, type Open, type Verb } from "./verbs.ts";

/** Runs one command line; returns the exit code. Data goes to stdout, everything else to stderr. */
export async function runCocoon(argv: readonly string[], io: CommandIo): Promise<number> {
  try {
    await cocoonProgram(io).parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    return toExitCode(error, io);
  }
}

function toExitCode(error: unknown, io: CommandIo): number {
  if (error instanceof Quit) return error.code;
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0;
    io.stderr.write(`Error: ${error.message.replace(/^error: /, "")}\n`);
    return 1;
  }
  io.stderr.write(`Error: ${io.signal.aborted ? "interrupted" : getErrorMessage(error)}\n`);
  return 1;
}

function cocoonProgram(io: CommandIo): Command {
  const program = new Command("cocoon")
    .description("MicroVM engine")
    .option("--config <file>", "settings file")
    .option(
      "--root-dir <directory>",
      "where everything is kept (default: COCOON_ROOT_DIR, else /var/lib/cocoon)",
    )
    .option("--run-dir <directory>", "accepted, not used: everything is below the root directory")
    .option("--log-dir <directory>", "accepted, not used: everything is below the root directory")
    .option("--cni-conf-dir <directory>", "accepted, not used")
    .option("--cni-bin-dir <directory>", "accepted, not used")
    .option("--dns <list>", "DNS servers (default: COCOON_DNS, else 8.8.8.8,1.1.1.1)")
    .option("--log-level <level>", "log level (default: info)");
  const open: Open = (command) =>
    new CommandSession(io, readSettings(command.optsWithGlobals<GlobalFlags>(), io.env));
  addVerbs(program.command("image").description("images"), open, imageVerbs);
  addVerbs(program.command("vm").description("virtual machines"), open, vmVerbs);
  addVerbs(program.command("snapshot").description("snapshots"), open, snapshotVerbs);
  addVerbs(program, open, otherVerbs);
  addVerbs(program, open, [
    {
      usage: "completion <shell>",
      description: "a completion script for bash, zsh, fish or powershell",
      run: (session, shell: string) => session.print(completionScript(shell, program)),
    },
  ]);
  stateDefaults(program);
  quiet(program, io);
  return program;
}

const otherVerbs: readonly Verb[] = [
  {
    usage: "gc",
    description: "remove what nothing refers to",
    flags: { "--snapshot": "accepted, not used" },
    run: async (session) => {
      const { images } = await (await session.runtime()).gc(session);
      session.say(`gc: ${images.removed.length} blobs removed, ${images.freedBytes} bytes freed`);
    },
  },
  {
    usage: "version",
    description: "version and build",
    run: (session) => {
      const { version, revision, builtAt } = buildInfo();
      const lines = [
        `Version:        ${version}`,
        `Git hash:       ${revision}`,
        `Built:          ${builtAt}`,
        `Golang version: none (Node.js ${process.version})`,
        `OS/Arch:        ${platform()}/${arch() === "x64" ? "amd64" : arch()}`,
      ];
      session.print(`${lines.join("\n")}\n`);
    },
  },
  { usage: "doctor", description: "what this host has and lacks", run: runDoctor },
];

/** No usage dump on mistakes, and nothing written past our streams. */
function quiet(command: Command, io: CommandIo): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => void io.stdout.write(text),
    writeErr: () => undefined,
  });
  for (const child of command.commands) quiet(child, io);
}
