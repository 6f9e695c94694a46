/** Options that commands share, and how a command's help is laid out. */
import type { Command } from "commander";

/** Where the cluster is, as kubectl and its plugins name it. */
export function clusterOptions(command: Command): Command {
  return command
    .option("-n, --namespace <name>", "namespace (default: that of the context)")
    .option(
      "--kubeconfig <path>",
      "kubeconfig of the cluster (default: this machine's platform, else KUBECONFIG)",
    )
    .option("--context <name>", "context of the kubeconfig");
}

export function waitOptions(command: Command, timeout: string): Command {
  return command
    .option(
      "--timeout <duration>",
      "how long to wait, such as 90s or 5m; exit code 4 when it is over",
      timeout,
    )
    .option("--no-wait", "ask for it and return at once");
}

export function outputOption(command: Command, formats = "table, wide, json, yaml or name"): Command {
  return command.option("-o, --output <format>", formats, "table");
}

/** `Examples:` below the help; `NAME` stands for the program's name. */
export function examples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText("after", ({ command: shown }) => {
    const name = rootOf(shown).name();
    return `\nExamples:\n${lines.map((line) => `  ${line.replaceAll("cocoonctl", name)}`).join("\n")}`;
  });
}

function rootOf(command: Command): Command {
  return command.parent ? rootOf(command.parent) : command;
}
