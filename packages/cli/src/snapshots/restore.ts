/**
 * snapshot restore: a machine of the past comes back. Either a new set starts from the snapshot (`--as`), or a set's own main
 * agent is replaced by it (`--in-place`); the machine that it replaces leaves its own snapshot first, by the set's policy.
 * Both are the field spec.agent.from: the operator does the rest.
 */
import { apiVersion, latestTag, type CocoonSetSpecInput } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { retag, type Registry } from "@cocoon/oci";
import { findSet, listAll, nameOf, tryGet } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { lookRestored, lookRunning } from "../cluster/set-progress.ts";
import { waiterOf, type WaitOptions } from "../cluster/wait.ts";
import { didYouMean } from "../near-names.ts";
import { serialize } from "../output.ts";
import { readMachineName } from "./machine-name.ts";
import { tryOpenSnapshotRegistry, type RegistryOptions } from "./registry-access.ts";
import { restoredTag, snapshotsOf } from "./stored.ts";
import { commandName } from "../invocation.ts";

export interface RestoreOptions extends ClusterOptions, RegistryOptions, WaitOptions {
  readonly as?: string;
  readonly inPlace?: boolean;
  readonly dryRun?: boolean;
}

interface Source {
  readonly set: string;
  readonly slot: number;
  readonly tag: string;
}

export async function restoreSnapshot(
  name: string,
  tag: string | undefined,
  options: RestoreOptions,
): Promise<void> {
  const wait = waiterOf(options);
  if ((options.as === undefined) === !options.inPlace)
    throw new Fault(
      "badRequest",
      "say where to: --as NEWSET makes a set from the snapshot, --in-place replaces the set's main agent by it",
    );
  await using session = await openSession(options);
  await using registry = await tryOpenSnapshotRegistry(options, session.target);
  const sets = (await listAll(session, cocoonSets, { namespace: session.namespace })).map(nameOf);
  const { vm, set, slot } = readMachineName(name, session.namespace, sets);
  if (set === undefined || slot === undefined)
    throw new Fault(
      "badRequest",
      `${name} is not a main agent or sub-agent: spec.agent.from can only name those; start a toolbox from it with image: ${vm}:${tag ?? latestTag} and mode: clone`,
    );
  const source = { set, slot, tag: tag ?? latestTag };
  const digest = registry ? await digestOf(registry, vm, { tag: source.tag, session }) : undefined;
  if (options.as !== undefined)
    return await makeSet(session, source, { ...options, name: options.as, vm, wait });
  await replaceMain(session, source, { ...options, registry, vm, digest, wait });
}

/** A tag that is not there is a mistake now, not a machine that never comes up. */
async function digestOf(
  registry: Registry,
  vm: string,
  { tag, session }: { readonly tag: string; readonly session: Session },
): Promise<string> {
  const there = await snapshotsOf(registry, vm, session);
  const found = there.find((each) => each.tag === tag);
  if (found) return found.digest;
  const tags = there.map((each) => each.tag);
  throw new Fault(
    "notFound",
    `${vm} has no snapshot "${tag}"${didYouMean(tag, tags)}; it has ${tags.join(", ") || "none"}`,
  );
}

interface Making extends Pick<RestoreOptions, "dryRun"> {
  readonly name: string;
  readonly vm: string;
  readonly wait: ReturnType<typeof waiterOf>;
}

async function makeSet(session: Session, source: Source, { name, vm, dryRun, wait }: Making): Promise<void> {
  const { client, namespace, signal } = session;
  const original = await tryGet(session, cocoonSets, { namespace, name: source.set });
  const set = restoredSet({ name, namespace, source, original, image: `${vm}:${source.tag}` });
  const made = await client.create(cocoonSets, set, { signal, dryRun: dryRun ?? false });
  if (dryRun) return void process.stdout.write(await serialize("yaml", set));
  process.stdout.write(`${name}: created from ${vm}:${source.tag}\n`);
  const generation = made.metadata.generation ?? 0;
  const look = async () =>
    lookRunning(await client.get(cocoonSets, { namespace, name }, { signal }), { generation });
  await wait([{ name, look }], session);
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
  readonly registry: Registry | undefined;
  readonly vm: string;
  readonly digest: string | undefined;
  readonly wait: ReturnType<typeof waiterOf>;
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
  const generation = (await client.patch(cocoonSets, { key, patch }, { signal })).metadata.generation ?? 0;
  process.stdout.write(`${source.set}-0: is replaced by ${vm}:${tag}\n`);
  const look = async () => lookRestored(await client.get(cocoonSets, key, { signal }), { generation });
  await options.wait([{ name: source.set, look }], session);
}

/** `latest` is about to name the machine that is replaced: what it names now gets a tag of its own first. */
async function fixedTag(
  { tag }: Source,
  {
    registry,
    vm,
    digest,
    signal,
  }: Pick<Replacing, "registry" | "vm" | "digest"> & { readonly signal: AbortSignal },
): Promise<string> {
  if (tag !== latestTag) return tag;
  if (!registry || digest === undefined)
    throw new Fault(
      "badRequest",
      "latest is overwritten when the machine is replaced, so it needs a tag of its own first: name the registry (OCI_REGISTRY or --registry), or restore with --as NEWSET",
    );
  const fixed = restoredTag(digest);
  await retag({ repository: registry.repository(vm), from: digest, to: fixed, signal });
  return fixed;
}
