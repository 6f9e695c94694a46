/** snapshot ls: what the registry keeps of the machines of a namespace; without a registry, what the cluster knows. */
import { hibernateTag, podVmName, type TagPurpose } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { namespaces, pods } from "@cocoon/kube";
import { MachineSnapshots, type StoredSnapshot } from "@cocoon/machine";
import type { Registry } from "@cocoon/oci";
import { listAll, getName, tryList } from "../../cluster/find.ts";
import { cocoonSets, type SetObject } from "../../cluster/kinds.ts";
import { machineRows, type MachineRow } from "../../cluster/machine-rows.ts";
import { openSession, type ClusterOptions, type Session } from "../../cluster/session.ts";
import { didYouMean } from "../../near-names.ts";
import { readFormat, serialize, shortDigest, type OutputFormat } from "../../output.ts";
import { age, formatTable, type Column } from "../../table.ts";
import { readMachineName } from "../../snapshots/machine-name.ts";
import { tryOpenRegistry, type RegistryOptions } from "../../snapshots/registry-access.ts";
import { clusterOptions, outputOption, registryOption, type CommandSpec } from "../../command-spec.ts";

export const command: CommandSpec = {
  usage: "ls [name]",
  alias: "list",
  summary: "snapshots of a set, of a machine, or of all",
  description:
    "Lists the snapshots of a set with its machines, of one machine, or of the namespace. Machines of deleted sets are listed where the registry lists repositories.",
  options: { ...outputOption(), ...registryOption, ...clusterOptions },
  examples: [
    "cocoonctl snapshot ls",
    "cocoonctl snapshot ls demo -o wide",
    "OCI_REGISTRY=registry.example/base EPOCH_TOKEN=… cocoonctl snapshot ls",
  ],
  run: listSnapshots,
};

interface ListOptions extends ClusterOptions, RegistryOptions {
  readonly output: string;
}

async function listSnapshots(name: string | undefined, options: ListOptions): Promise<void> {
  const format = readFormat(options.output);
  await using session = await openSession(options);
  await using registry = await tryOpenRegistry(options, session.target);
  const { namespace } = session;
  const sets = await listAll(session, cocoonSets, { namespace });
  const known = machineRows(sets, await listAll(session, pods, { namespace }));
  const all = registry ? await fromRegistry(session, registry, known) : fromMachines(known);
  const found = name === undefined ? all : all.filter(selection(name, namespace, sets));
  const text =
    found.length === 0 && isTable(format)
      ? emptyText(name, sets, session)
      : await formatSnapshots(found, format);
  process.stdout.write(text);
  if (!registry)
    process.stderr.write(
      "No registry is named, so only what machines are hibernated in is shown; set OCI_REGISTRY or EPOCH_URL, or give --registry.\n",
    );
}

function isTable(format: OutputFormat): boolean {
  return format === "table" || format === "wide";
}

async function formatSnapshots(found: readonly StoredSnapshot[], format: OutputFormat): Promise<string> {
  if (format === "json" || format === "yaml") return serialize(format, found);
  if (format === "name") return found.map(({ vmName, tag }) => `${vmName}:${tag}\n`).join("");
  return `${snapshotTable(found, { wide: format === "wide", now: Date.now() })}\n`;
}

function fromMachines(known: readonly MachineRow[]): StoredSnapshot[] {
  return known
    .filter(({ snapshot }) => snapshot !== "")
    .map(({ vmName, snapshot: digest }) => ({
      vmName,
      tag: hibernateTag,
      purpose: "hibernated",
      digest,
      sizeBytes: 0,
      createdAt: "",
    }));
}

function emptyText(name: string | undefined, sets: readonly SetObject[], { namespace }: Session): string {
  const about =
    name === undefined
      ? ""
      : ` of ${name}${didYouMean(
          name,
          sets.map(getName).filter((each) => each !== name),
        )}`;
  return `There are no snapshots${about} in namespace ${namespace}. One is made when a machine is hibernated, and when it is deleted (spec.snapshotPolicy).\n`;
}

/** A set's name means all of its machines, of the past too. */
function selection(
  name: string,
  namespace: string,
  sets: readonly SetObject[],
): (snapshot: StoredSnapshot) => boolean {
  const { vm } = readMachineName(name, namespace, []);
  const exact = !sets.some((set) => getName(set) === name);
  return ({ vmName }) =>
    vmName === vm ||
    (!exact && vmName.startsWith(`${podVmName(namespace, name)}-`)) ||
    (exact && vmName.startsWith(`${vm}-`));
}

/** So many machines are looked up in the registry at a time. */
const concurrentLookups = 8;

async function fromRegistry(
  session: Session,
  registry: Registry,
  known: readonly MachineRow[],
): Promise<StoredSnapshot[]> {
  const names = new Set(known.map(({ vmName }) => vmName).filter((each) => each !== ""));
  for (const name of await listRepositories(session, registry)) names.add(name);
  const sorted = [...names].sort((left, right) => left.localeCompare(right, undefined, { numeric: true }));
  const snapshots = new MachineSnapshots({ registry });
  const found: StoredSnapshot[] = [];
  for (let index = 0; index < sorted.length; index += concurrentLookups) {
    const some = sorted.slice(index, index + concurrentLookups);
    found.push(...(await Promise.all(some.map((name) => snapshots.list(name, session)))).flat());
  }
  return found;
}

/** All of the namespace where the registry lists them, so that machines of deleted sets are found too. */
async function listRepositories(session: Session, registry: Registry): Promise<readonly string[]> {
  const { namespace } = session;
  // Names are not escaped: vk-a-b-0 may be of namespace a or of namespace a-b.
  const longer = (await tryList(listAll(session, namespaces)))
    .map(getName)
    .filter((each) => each.startsWith(`${namespace}-`));
  const base = registry.fullName("");
  const found: string[] = [];
  try {
    for await (const full of registry.repositories(session)) {
      const name = base !== "" && full.startsWith(`${base}/`) ? full.slice(base.length + 1) : full;
      const other = longer.some((each) => name.startsWith(podVmName(each, "")));
      if (name.startsWith(podVmName(namespace, "")) && !other) found.push(name);
    }
  } catch (error) {
    // Many registries and tokens do not allow listing; the machines that the cluster knows are still shown.
    if (!isFault(error) || error.traits.retry) throw error;
  }
  return found;
}

const descriptions: Readonly<Record<TagPurpose, string>> = {
  hibernated: "the machine is hibernated in it",
  claim: "a node restores the machine from it",
  latest: "taken when the machine was deleted",
  released: "kept when its slot was released",
  restored: "its set was restored from it",
  anchor: "content kept for the next snapshot",
  named: "",
};

export function snapshotTable(
  found: readonly StoredSnapshot[],
  { wide, now }: { readonly wide: boolean; readonly now: number },
): string {
  const columns: Column<StoredSnapshot>[] = [
    { title: "MACHINE", cell: ({ vmName }) => vmName },
    { title: "TAG", cell: ({ tag }) => tag },
    { title: "DIGEST", cell: ({ digest }) => (wide ? digest : shortDigest(digest)) },
    { title: "SIZE", cell: ({ sizeBytes }) => (sizeBytes > 0 ? formatSize(sizeBytes) : "") },
    { title: "AGE", cell: ({ createdAt }) => (createdAt === "" ? "" : age(now - Date.parse(createdAt))) },
    { title: "WHAT IT IS", cell: ({ purpose }) => descriptions[purpose] },
  ];
  return formatTable(columns, found);
}

export function formatSize(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 10 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}
