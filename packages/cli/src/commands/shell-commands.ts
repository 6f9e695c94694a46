/** Commands about the tool itself. */
import type { Command } from "commander";
import { clusterOptions, examples } from "./options.ts";

const group = "This tool:";

export function addShellCommands(program: Command): void {
  const completion = program
    .command("completion <shell>")
    .helpGroup(group)
    .summary("completions for bash, zsh or fish")
    .description(
      "Prints a script that completes commands, options and the names of sets, machines, nodes and parts in bash, zsh or fish. For `kubectl cocoon`, kubectl's own completion asks kubectl_complete-cocoon, which comes with this tool.",
    );
  examples(
    completion,
    "source <(cocoonctl completion bash)",
    "cocoonctl completion zsh > ~/.zfunc/_cocoonctl",
    "cocoonctl completion fish > ~/.config/fish/completions/cocoonctl.fish",
  ).action(async (shell: string) => (await import("../completion/completion.ts")).completion(shell));
  clusterOptions(program.command("__complete [words...]", { hidden: true }))
    .allowUnknownOption()
    .helpOption(false)
    .action(async (_words: string[], _options, command: Command) => {
      const words = process.argv
        .slice(process.argv.indexOf("__complete") + 1)
        .filter((word, index) => index > 0 || word !== "--");
      await (await import("../completion/complete.ts")).complete(words, command.parent ?? command);
    });
  program
    .command("version")
    .helpGroup(group)
    .description("version, revision and build time, and those of the control plane")
    .action(async () => (await import("./version.ts")).version());
}
