/** snapshot rm: snapshots that nobody sleeps in. */
import { Fault } from "@cocoon/core";
import { listAll, nameOf } from "../cluster/find.ts";
import { cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { didYouMean } from "../near-names.ts";
import { readMachineName } from "./machine-name.ts";
import { openSnapshotRegistry, type RegistryOptions } from "./registry-access.ts";
import { kindOfTag, removeSnapshot, snapshotsOf } from "./stored.ts";

export interface RemoveOptions extends ClusterOptions, RegistryOptions {
  readonly dryRun?: boolean;
}

export async function removeSnapshots(
  name: string,
  tags: readonly string[],
  options: RemoveOptions,
): Promise<void> {
  await using session = await openSession(options);
  await using registry = await openSnapshotRegistry(options, session.target);
  const sets = (await listAll(session, cocoonSets, { namespace: session.namespace })).map(nameOf);
  const { vm: machine } = readMachineName(name, session.namespace, sets);
  const there = (await snapshotsOf(registry, machine, session)).map(({ tag }) => tag);
  for (const tag of tags) {
    if (there.includes(tag) || kindOfTag(tag) === "sleeping") continue;
    throw new Fault(
      "notFound",
      `${machine} has no snapshot "${tag}"${didYouMean(tag, there)}; it has ${there.join(", ") || "none"}`,
    );
  }
  for (const tag of tags) {
    if (options.dryRun && kindOfTag(tag) !== "sleeping")
      process.stdout.write(`would remove ${machine}:${tag}\n`);
    else if (await removeSnapshot(registry, { machine, tag }, session))
      process.stdout.write(`removed ${machine}:${tag}\n`);
  }
}
