/**
 * The whole command line as one tree: what `--help` shows, completions offer and docs/cli.md is made of. Building it
 * loads no command.
 */
import { versionText } from "@cocoon/core/version";
import { Command, CommanderError } from "commander";
import { addCommands } from "./commands/index.ts";
import { exitCodeText } from "./exit-codes.ts";

export const description =
  "MicroVMs as Kubernetes pods: make machines, put them to sleep, wake them anywhere";

export function buildProgram(name: string): Command {
  const program = new Command(name)
    .description(description)
    .usage("<command> [options]")
    .option("--version", "version, revision and build time")
    .option("--dir <path>", "where the platform of this machine lives (env COCOON_HOME)")
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
  addCommands(program);
  return program;
}
