/**
 * The whole command line as one tree: what `--help` shows, completions offer and docs/cli.md is made of. Building it
 * loads no command.
 */
import { stateDefaults } from "@cocoon/core";
import { versionText } from "@cocoon/core/version";
import { Command, CommanderError } from "commander";
import { addCommands } from "./commands/index.ts";
import { exitCodeText } from "./run-cli.ts";

export { visibleCommands } from "./command-spec.ts";

export const description =
  "MicroVMs as Kubernetes pods: make machines, put them to sleep, wake them anywhere";

/** `argv`: the words after the program's name; without them all commands are there. */
export async function buildProgram(name: string, argv: readonly string[] = []): Promise<Command> {
  const program = new Command(name)
    .description(description)
    .usage("<command> [options]")
    .option("--version", "version, revision and build time")
    .option(
      "--dir <path>",
      "where the platform of this machine lives (default: COCOON_HOME, else ~/.local/state/cocoon)",
    )
    .showHelpAfterError("(--help shows what there is)")
    .showSuggestionAfterError()
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      "after",
      `\nExit codes: ${exitCodeText}.\n\`${name} <command> --help\` shows a command with examples.`,
    );
  program.on("option:version", () => {
    process.stdout.write(versionText(name));
    throw new CommanderError(0, "commander.version", "");
  });
  await addCommands(program, argv);
  stateDefaults(program);
  return program;
}
