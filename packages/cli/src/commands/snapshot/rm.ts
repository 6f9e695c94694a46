/** snapshot rm: removes snapshots of machines that are not hibernated in them. */
import { readTagPurpose } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { MachineSnapshots } from "@cocoon/machine";
import { listAll, getName } from "../../cluster/find.ts";
import { cocoonSets } from "../../cluster/kinds.ts";
import { openSession, type ClusterOptions } from "../../cluster/session.ts";
import { didYouMean } from "../../near-names.ts";
import { readMachineName } from "../../snapshots/machine-name.ts";
import { openRegistry, type RegistryOptions } from "../../snapshots/registry-access.ts";
import { clusterOptions, registryOption, type CommandSpec } from "../../command-spec.ts";

export const command: CommandSpec = {
  usage: "rm <machine> <tag...>",
  alias: "remove",
  summary: "remove snapshots that no machine is hibernated in",
  description:
    "Removes snapshots. A snapshot that a machine is hibernated in is its only copy: removing it is refused. A set's name means its main agent.",
  options: {
    "--dry-run": "print what would be removed, remove nothing",
    ...registryOption,
    ...clusterOptions,
  },
  examples: ["cocoonctl snapshot rm demo latest", "cocoonctl snapshot rm demo-1 released-20260102T030405Z"],
  run: removeSnapshots,
};

interface RemoveOptions extends ClusterOptions, RegistryOptions {
  readonly dryRun?: boolean;
}

async function removeSnapshots(name: string, tags: readonly string[], options: RemoveOptions): Promise<void> {
  await using session = await openSession(options);
  await using registry = await openRegistry(options, session.target);
  const sets = (await listAll(session, cocoonSets, { namespace: session.namespace })).map(getName);
  const { vm } = readMachineName(name, session.namespace, sets);
  const snapshots = new MachineSnapshots({ registry });
  const present = (await snapshots.list(vm, session)).map(({ tag }) => tag);
  for (const tag of tags) {
    if (present.includes(tag) || isInUse(tag)) continue;
    throw new Fault(
      "notFound",
      `${vm} has no snapshot "${tag}"${didYouMean(tag, present)}; it has ${present.join(", ") || "none"}`,
    );
  }
  for (const tag of tags) {
    if (options.dryRun && !isInUse(tag)) process.stdout.write(`would remove ${vm}:${tag}\n`);
    else if (await snapshots.remove(vm, { tag, namespace: session.namespace }, session))
      process.stdout.write(`removed ${vm}:${tag}\n`);
  }
}

/** A machine is hibernated in it, or restored from it now: `remove` refuses, and says why. */
function isInUse(tag: string): boolean {
  return ["hibernated", "claim"].includes(readTagPurpose(tag));
}
