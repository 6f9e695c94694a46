/**
 * snapshot restore: a machine from an earlier snapshot. Either a new set starts from the snapshot (`--as`), or a set's own main
 * agent is replaced by it (`--in-place`); the machine that it replaces leaves its own snapshot first, by the set's policy.
 * Both are the field spec.agent.from: the operator does the rest.
 */
import { apiVersion, latestTag, restoredTag, type CocoonSetSpecInput } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { MachineSnapshots } from "@cocoon/machine";
import { awaitSet } from "../../cluster/await-set.ts";
import { findSet, listAll, getName, tryGet } from "../../cluster/find.ts";
import { cocoonSets, type SetObject } from "../../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../../cluster/session.ts";
import { lookRestored, lookRunning } from "../../cluster/set-progress.ts";
import { createWaiter, type WaitOptions } from "../../cluster/wait.ts";
import { didYouMean } from "../../near-names.ts";
import { serialize } from "../../output.ts";
import { readMachineName } from "../../snapshots/machine-name.ts";
import { tryOpenRegistry, type RegistryOptions } from "../../snapshots/registry-access.ts";
import { commandName } from "../../invocation.ts";
import { clusterOptions, registryOption, waitOptions, type CommandSpec } from "../../command-spec.ts";

export const command: CommandSpec = {
  usage: "restore <machine> [tag]",
  summary: "bring a machine of the past back",
  description:
    "Starts a machine from a snapshot (default: latest): as a new set with --as, or in place of the set's main agent with --in-place. The machine that is replaced leaves its own snapshot first, by the set's snapshotPolicy. The restored machine gets a fresh identity (host name, keys, machine id).",
  options: {
    "--as <set>": "name of the new set (default: none; this or --in-place is needed)",
    "--in-place": "replace the set's own main agent",
    "--dry-run": "print what would be done, do nothing",
    ...waitOptions("10m"),
    ...registryOption,
    ...clusterOptions,
  },
  examples: [
    "cocoonctl snapshot restore demo --as demo-old",
    "cocoonctl snapshot restore demo-2 released-20260102T030405Z --as rescued",
    "cocoonctl snapshot restore demo v3 --in-place",
  ],
  run: restoreSnapshot,
};

interface RestoreOptions extends ClusterOptions, RegistryOptions, WaitOptions {
  readonly as?: string;
  readonly inPlace?: boolean;
  readonly dryRun?: boolean;
}

interface Source {
  readonly set: string;
  readonly slot: number;
  readonly tag: string;
}

async function restoreSnapshot(
  name: string,
  tag: string | undefined,
  options: RestoreOptions,
): Promise<void> {
  const wait = createWaiter(options);
  if ((options.as === undefined) === !options.inPlace)
    throw new Fault(
      "badRequest",
      "name the target: --as NEWSET makes a set from the snapshot, --in-place replaces the set's main agent by it",
    );
  await using session = await openSession(options);
  await using registry = await tryOpenRegistry(options, session.target);
  const sets = (await listAll(session, cocoonSets, { namespace: session.namespace })).map(getName);
  const { vm, set, slot } = readMachineName(name, session.namespace, sets);
  if (set === undefined || slot === undefined)
    throw new Fault(
      "badRequest",
      `${name} is not a main agent or sub-agent: spec.agent.from can only name those; start a toolbox from it with image: ${vm}:${tag ?? latestTag} and mode: clone`,
    );
  const source = { set, slot, tag: tag ?? latestTag };
  const snapshots = registry && new MachineSnapshots({ registry });
  const digest = snapshots && (await getDigest(snapshots, vm, { tag: source.tag, session }));
  if (options.as !== undefined)
    return await makeSet(session, source, { ...options, name: options.as, vm, wait });
  await replaceMain(session, source, { ...options, snapshots, vm, digest, wait });
}

/** A tag that is not there is a mistake now, not a machine that never comes up. */
async function getDigest(
  snapshots: MachineSnapshots,
  vm: string,
  { tag, session }: { readonly tag: string; readonly session: Session },
): Promise<string> {
  const present = await snapshots.list(vm, session);
  const found = present.find((each) => each.tag === tag);
  if (found) return found.digest;
  const tags = present.map((each) => each.tag);
  throw new Fault(
    "notFound",
    `${vm} has no snapshot "${tag}"${didYouMean(tag, tags)}; it has ${tags.join(", ") || "none"}`,
  );
}

interface Making extends Pick<RestoreOptions, "dryRun"> {
  readonly name: string;
  readonly vm: string;
  readonly wait: ReturnType<typeof createWaiter>;
}

async function makeSet(session: Session, source: Source, { name, vm, dryRun, wait }: Making): Promise<void> {
  const { client, namespace, signal } = session;
  const original = await tryGet(session, cocoonSets, { namespace, name: source.set });
  const set = restoredSet({ name, namespace, source, original, image: `${vm}:${source.tag}` });
  const made = await client.create(cocoonSets, set, { signal, dryRun: dryRun ?? false });
  if (dryRun) return void process.stdout.write(await serialize("yaml", set));
  process.stdout.write(`${name}: created from ${vm}:${source.tag}\n`);
  await wait([awaitSet(session, made, lookRunning)], session);
}

export interface RestoredSet {
  readonly name: string;
  readonly namespace: string;
  readonly source: Source;
  /** The set that the machine was of, where it still is. */
  readonly original: SetObject | undefined;
  readonly image: string;
}

/** One machine like the old one: same size and place, no sub-agents, no toolboxes, no schedule. */
export function restoredSet({ name, namespace, source, original, image }: RestoredSet): SetObject {
  const { agent, nodePool, snapshotCompatibilityClass, snapshotPolicy, hibernatePolicy } =
    original?.spec ?? {};
  const { replicas: _replicas, from: _from, ...machine } = agent ?? { image };
  const spec: CocoonSetSpecInput = {
    ...(nodePool === undefined ? {} : { nodePool }),
    ...(snapshotCompatibilityClass === undefined ? {} : { snapshotCompatibilityClass }),
    ...(snapshotPolicy === undefined ? {} : { snapshotPolicy }),
    ...(hibernatePolicy === undefined ? {} : { hibernatePolicy }),
    agent: { ...machine, image, mode: "clone", from: { ...source } },
  };
  return { apiVersion, kind: "CocoonSet", metadata: { name, namespace }, spec };
}

interface Replacing extends Pick<RestoreOptions, "dryRun"> {
  readonly snapshots: MachineSnapshots | undefined;
  readonly vm: string;
  readonly digest: string | undefined;
  readonly wait: ReturnType<typeof createWaiter>;
}

async function replaceMain(session: Session, source: Source, options: Replacing): Promise<void> {
  const { client, namespace, signal } = session;
  const { dryRun = false, vm } = options;
  const set = await findSet(session, source.set);
  if (source.slot !== 0)
    throw new Fault(
      "badRequest",
      `only a main agent is replaced in place; start the sub-agent's snapshot as a set of its own: ${commandName()} snapshot restore ${source.set}-${source.slot} ${source.tag} --as NEWSET`,
    );
  if (set.spec?.suspend)
    throw new Fault(
      "conflict",
      `set ${source.set} is suspended, and a sleeping machine is not replaced; resume it first: ${commandName()} resume ${source.set}`,
    );
  const tag = dryRun ? source.tag : await fixedTag(source, { ...options, signal });
  const from = { ...source, tag };
  if (dryRun) return void process.stdout.write(`would replace ${source.set}-0 by ${vm}:${tag}\n`);
  const key = { namespace, name: source.set };
  const patch = { type: "merge", body: { spec: { agent: { mode: "clone", from } } } } as const;
  const written = await client.patch(cocoonSets, { key, patch }, { signal });
  process.stdout.write(`${source.set}-0: is replaced by ${vm}:${tag}\n`);
  await options.wait([awaitSet(session, written, lookRestored)], session);
}

/** `latest` is about to name the machine that is replaced: what it names now gets a tag of its own first. */
async function fixedTag(
  { tag }: Source,
  {
    snapshots,
    vm,
    digest,
    signal,
  }: Pick<Replacing, "snapshots" | "vm" | "digest"> & { readonly signal: AbortSignal },
): Promise<string> {
  if (tag !== latestTag) return tag;
  if (!snapshots || digest === undefined)
    throw new Fault(
      "badRequest",
      "latest is overwritten when the machine is replaced, so it needs a tag of its own first: name the registry (OCI_REGISTRY or --registry), or restore with --as NEWSET",
    );
  const fixed = restoredTag(digest);
  await snapshots.retag(vm, { digest, tag: fixed }, { signal });
  return fixed;
}
