/** snapshot ls: what the registry keeps of the machines of a namespace; without a registry, what the cluster knows. */
import { podVmName } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import type { Registry } from "@cocoon/oci";
import { listAll, nameOf } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { machineRows } from "../cluster/machine-rows.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { didYouMean } from "../near-names.ts";
import { readFormat, serialize, shortDigest } from "../output.ts";
import { age, tableOf, type Column } from "../table.ts";
import { readMachineName } from "./machine-name.ts";
import { tryOpenSnapshotRegistry, type RegistryOptions } from "./registry-access.ts";
import { snapshotsOf, type StoredSnapshot } from "./stored.ts";

export interface ListOptions extends ClusterOptions, RegistryOptions {
  readonly output: string;
}

export async function listSnapshots(name: string | undefined, options: ListOptions): Promise<void> {
  const format = readFormat(options.output);
  await using session = await openSession(options);
  await using registry = await tryOpenSnapshotRegistry(options, session.target);
  const sets = await listAll(session, cocoonSets, { namespace: session.namespace });
  const known = machineRows(sets, await listAll(session, pods, { namespace: session.namespace }));
  const sleeping: StoredSnapshot[] = known
    .filter(({ snapshot }) => snapshot !== "")
    .map((row) => ({
      machine: row.vmName,
      tag: "hibernate",
      digest: row.snapshot,
      sizeBytes: 0,
      createdAt: "",
      kind: "sleeping",
    }));
  const all = registry
    ? await fromRegistry(
        session,
        registry,
        known.map((row) => row.vmName),
      )
    : sleeping;
  const found = name === undefined ? all : all.filter(selection(name, session.namespace, sets));
  if (format === "json" || format === "yaml") process.stdout.write(await serialize(format, found));
  else if (format === "name")
    process.stdout.write(found.map(({ machine, tag }) => `${machine}:${tag}\n`).join(""));
  else
    process.stdout.write(
      found.length === 0
        ? emptyText(name, sets, session)
        : `${snapshotTable(found, { wide: format === "wide", now: Date.now() })}\n`,
    );
  if (!registry)
    process.stderr.write(
      "No registry is named, so only what machines sleep in is shown; set OCI_REGISTRY or EPOCH_URL, or give --registry.\n",
    );
}

function emptyText(name: string | undefined, sets: readonly SetObject[], { namespace }: Session): string {
  const about =
    name === undefined
      ? ""
      : ` of ${name}${didYouMean(
          name,
          sets.map(nameOf).filter((each) => each !== name),
        )}`;
  return `There are no snapshots${about} in namespace ${namespace}. Machines leave one when they sleep, and when they are deleted (spec.snapshotPolicy).\n`;
}

/** A set's name means all of its machines, of the past too. */
function selection(
  name: string,
  namespace: string,
  sets: readonly SetObject[],
): (snapshot: StoredSnapshot) => boolean {
  const { vm } = readMachineName(name, namespace, []);
  const exact = !sets.some((set) => nameOf(set) === name);
  return ({ machine }) =>
    machine === vm ||
    (!exact && machine.startsWith(`${podVmName(namespace, name)}-`)) ||
    (exact && machine.startsWith(`${vm}-`));
}

/** All repositories of the namespace where the registry lists them, so that machines of deleted sets are found too. */
async function fromRegistry(
  session: Session,
  registry: Registry,
  known: readonly string[],
): Promise<StoredSnapshot[]> {
  const prefix = `vk-${session.namespace}-`;
  const names = new Set(known.filter((each) => each !== ""));
  try {
    const base = registry.fullName("");
    for await (const full of registry.repositories(session)) {
      const name = base !== "" && full.startsWith(`${base}/`) ? full.slice(base.length + 1) : full;
      if (name.startsWith(prefix)) names.add(name);
    }
  } catch (error) {
    // Many registries and tokens do not allow listing; the machines that the cluster knows are still shown.
    if (!isFault(error) || error.traits.retry) throw error;
  }
  const found = await Promise.all([...names].map((name) => snapshotsOf(registry, name, session)));
  return found
    .flat()
    .sort(
      (left, right) =>
        left.machine.localeCompare(right.machine, undefined, { numeric: true }) ||
        left.tag.localeCompare(right.tag),
    );
}

const meanings = {
  sleeping: "the machine sleeps in it",
  latest: "left when the machine was deleted",
  released: "given up while asleep",
  named: "",
} as const;

export function snapshotTable(
  found: readonly StoredSnapshot[],
  { wide, now }: { readonly wide: boolean; readonly now: number },
): string {
  const columns: Column<StoredSnapshot>[] = [
    { title: "MACHINE", cell: ({ machine }) => machine },
    { title: "TAG", cell: ({ tag }) => tag },
    { title: "DIGEST", cell: ({ digest }) => (wide ? digest : shortDigest(digest)) },
    { title: "SIZE", cell: ({ sizeBytes }) => (sizeBytes > 0 ? sizeText(sizeBytes) : "") },
    { title: "AGE", cell: ({ createdAt }) => (createdAt === "" ? "" : age(now - Date.parse(createdAt))) },
    { title: "WHAT IT IS", cell: ({ kind }) => meanings[kind] },
  ];
  return tableOf(columns, found);
}

export function sizeText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}
