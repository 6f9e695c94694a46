/** Commands about snapshots. */
import type { Command } from "commander";
import { clusterOptions, examples, outputOption, waitOptions } from "./options.ts";

export function addSnapshotCommands(program: Command): void {
  const snapshot = program
    .command("snapshot")
    .helpGroup("Snapshots:")
    .summary("list, remove and restore snapshots of machines")
    .description(
      "Snapshots of machines in the registry: what they sleep in (hibernate), what they left when they were deleted (latest), what was given up while asleep (released-<time>).",
    );
  const list = snapshot
    .command("ls [name]")
    .alias("list")
    .summary("snapshots of a set, of a machine, or of all")
    .description(
      "Lists the snapshots of a set with its machines, of one machine, or of the namespace. Machines of deleted sets are listed where the registry lists repositories.",
    );
  examples(
    clusterOptions(registryOption(outputOption(list))),
    "cocoonctl snapshot ls",
    "cocoonctl snapshot ls demo -o wide",
    "OCI_REGISTRY=registry.example/base EPOCH_TOKEN=… cocoonctl snapshot ls",
  ).action(async (name: string | undefined, _options, command: Command) =>
    (await import("../snapshots/list.ts")).listSnapshots(name, command.optsWithGlobals()),
  );
  const remove = snapshot
    .command("rm <machine> <tag...>")
    .alias("remove")
    .summary("remove snapshots that nobody sleeps in")
    .description(
      "Removes snapshots. What a machine sleeps in is its only copy and is refused. A set's name means its main agent.",
    )
    .option("--dry-run", "say what would be removed, remove nothing");
  examples(
    clusterOptions(registryOption(remove)),
    "cocoonctl snapshot rm demo latest",
    "cocoonctl snapshot rm demo-1 released-20260102T030405Z",
  ).action(async (...[machine, tags, , command]: [string, string[], unknown, Command]) =>
    (await import("../snapshots/remove.ts")).removeSnapshots(machine, tags, command.optsWithGlobals()),
  );
  addRestore(snapshot);
}

function addRestore(snapshot: Command): void {
  const restore = snapshot
    .command("restore <machine> [tag]")
    .summary("bring a machine of the past back")
    .description(
      "Starts a machine from a snapshot (default: latest): as a new set with --as, or in place of the set's main agent with --in-place. The machine that is replaced leaves its own snapshot first, by the set's snapshotPolicy. The restored machine gets a fresh identity (host name, keys, machine id).",
    )
    .option("--as <set>", "name of the new set")
    .option("--in-place", "replace the set's own main agent")
    .option("--dry-run", "say what would be done, do nothing");
  examples(
    clusterOptions(registryOption(waitOptions(restore, "10m"))),
    "cocoonctl snapshot restore demo --as demo-old",
    "cocoonctl snapshot restore demo-2 released-20260102T030405Z --as rescued",
    "cocoonctl snapshot restore demo v3 --in-place",
  ).action(async (...[machine, tag, , command]: [string, string | undefined, unknown, Command]) =>
    (await import("../snapshots/restore.ts")).restoreSnapshot(machine, tag, command.optsWithGlobals()),
  );
}

function registryOption(command: Command): Command {
  return command.option(
    "--registry <address>",
    "registry of the snapshots (default: this machine's platform, else OCI_REGISTRY, EPOCH_URL)",
  );
}
