/** The command line of `epoch`: one tree of commands; exit code 0 done, 1 failed, 2 called wrongly, 130 interrupted. */
import { isFault, getErrorMessage, stateDefaults } from "@cocoon/core";
import { versionText } from "@cocoon/core/version";
import { Command, CommanderError } from "commander";
import { addAdminCommands } from "./commands/admin.ts";
import { addFsckCommand } from "./commands/fsck.ts";
import { addLookCommands } from "./commands/look.ts";
import { addPullCommands } from "./commands/pull.ts";
import { addPushCommands } from "./commands/push.ts";
import type { Streams } from "./output.ts";
import { clientEnvironment, Session, type Run } from "./session.ts";

export interface ClientParts {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly streams: Streams;
  readonly signal: AbortSignal;
}

export async function runClient(argv: readonly string[], parts: ClientParts): Promise<number> {
  const program = clientProgram(parts);
  overrideExits(program, parts.streams);
  try {
    await program.parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    if (parts.signal.aborted) return 130;
    // Commander has printed its own text; asking for help or the version is not a mistake.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    parts.streams.stderr.write(`epoch: ${getErrorMessage(error)}\n`);
    return isFault(error, "badRequest") ? 2 : 1;
  }
}

function clientProgram({ env, streams, signal }: ClientParts): Command {
  const program = new Command("epoch")
    .description("snapshots and images in a registry")
    .version(versionText("epoch").trim(), "--version")
    .option("--server <url>", "the registry (env EPOCH_SERVER, default http://127.0.0.1:8080)")
    .option("--ca <file>", "certificate authority to trust besides the system's (env EPOCH_CA_CERT)")
    .option("--plain-http", "speak to registries other than this machine's without TLS")
    .option("--json", "results as JSON")
    .option("-q, --quiet", "no progress and no summaries")
    .showHelpAfterError("(--help shows what there is)")
    .configureHelp({ showGlobalOptions: true });
  program.command("serve").description("serve a registry; epoch serve --help shows its flags");
  const run: Run =
    (work) =>
    async (...args) => {
      const command = args.at(-1) as Command;
      await using session = new Session(command, { signal, streams, environment: clientEnvironment(env) });
      await work(session, command.args, command.opts());
    };
  addPushCommands(program, run);
  addPullCommands(program, run);
  addLookCommands(program, run);
  addAdminCommands(program, run);
  addFsckCommand(program, run);
  stateDefaults(program);
  return program;
}

function overrideExits(command: Command, streams: Streams): void {
  command.exitOverride();
  command.configureOutput({
    writeOut: (text) => void streams.stdout.write(text),
    writeErr: (text) => void streams.stderr.write(text),
  });
  for (const each of command.commands) overrideExits(each, streams);
}
