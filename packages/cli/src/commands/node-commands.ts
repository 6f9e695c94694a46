/** Commands about what happened, and about nodes. */
import type { Command } from "commander";
import { clusterOptions, examples, outputOption, waitOptions } from "./options.ts";

export function addNodeCommands(program: Command): void {
  const events = program
    .command("events [name]")
    .helpGroup("Sets and machines:")
    .summary("what happened to sets and machines")
    .description("Shows the events of a set with its machines, of one machine, or of all, oldest first.")
    .option("-A, --all-namespaces", "in all namespaces")
    .option("--warnings", "only warnings")
    .option("-w, --watch", "show it again as it changes, until Ctrl-C");
  examples(
    clusterOptions(outputOption(events, "table, wide, json or yaml")),
    "cocoonctl events demo",
    "cocoonctl events --warnings -A",
  ).action(async (name: string | undefined, _options, command: Command) =>
    (await import("../verbs/events.ts")).events(name, command.optsWithGlobals()),
  );
  const drain = program
    .command("drain <node>")
    .helpGroup("Nodes:")
    .summary("empty a node: its machines sleep and wake elsewhere")
    .description(
      "Lets the node take no new pods and evicts its machines: they sleep, and wake on other nodes. A main agent that is pinned to the node sleeps until the node takes pods again. Disruption budgets are honoured. May be interrupted and repeated.",
    )
    .option("--dry-run", "say what would be evicted, do nothing");
  examples(
    clusterOptions(waitOptions(drain, "15m")),
    "cocoonctl drain cocoon-1",
    "cocoonctl drain cocoon-1 --timeout 30m",
  ).action(async (node: string, _options, command: Command) =>
    (await import("../verbs/drain.ts")).drain(node, command.optsWithGlobals()),
  );
  const uncordon = program
    .command("uncordon <node>")
    .helpGroup("Nodes:")
    .description("let a drained node take pods again");
  examples(clusterOptions(uncordon), "cocoonctl uncordon cocoon-1").action(
    async (node: string, _options, command: Command) =>
      (await import("../verbs/drain.ts")).uncordon(node, command.optsWithGlobals()),
  );
}
