/** Finds a machine's snapshots: what a tag names, and the state of a hibernated machine. */
import {
  hibernateTag,
  manifestAnnotation,
  manifestSchema,
  mediaType,
  readTagPurpose,
  sealTag,
  tryReadClaimTag,
  type Manifest,
  type TagPurpose,
} from "@cocoon/contract";
import { type Abortable, ignoreFault } from "@cocoon/core";
import { readSnapshot, type Repository } from "@cocoon/oci";
import { findDigest, listTags } from "./tags.ts";

/** A snapshot as its manifest and config describe it. Texts that are not recorded are "". */
export interface SnapshotInfo {
  readonly digest: string;
  /** Id on the node that saved it. */
  readonly snapshotId: string;
  readonly fromNode: string;
  readonly baseImage: string;
  /** Namespace of the machine. */
  readonly namespace: string;
  /** Id of the VM that was saved. */
  readonly vmId: string;
  /** Digest of the snapshot that the saved VM was restored from. */
  readonly restoredFrom: string;
}

/** Undefined: the registry answered that there is none. `damaged`: the manifest is there and its config is not. */
export async function findSnapshot(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<SnapshotInfo | undefined> {
  const found = await ignoreFault("notFound", readSnapshot(repository, reference, options));
  if (!found) return undefined;
  return { digest: found.digest, snapshotId: found.config.snapshotId, ...readOrigin(found.manifest) };
}

export type SnapshotOrigin = Omit<SnapshotInfo, "digest" | "snapshotId">;

function readOrigin({ annotations = {} }: Manifest): SnapshotOrigin {
  return {
    fromNode: annotations[manifestAnnotation.fromNode] ?? "",
    baseImage: annotations[manifestAnnotation.baseImage] ?? "",
    namespace: annotations[manifestAnnotation.namespace] ?? "",
    vmId: annotations[manifestAnnotation.vmId] ?? "",
    restoredFrom: annotations[manifestAnnotation.restoredFrom] ?? "",
  };
}

/** The manifest alone: enough to decide, also where the config is damaged. Undefined when there is none. */
export async function findManifest(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<(SnapshotOrigin & { readonly digest: string; readonly manifest: Manifest }) | undefined> {
  const found = await ignoreFault("notFound", repository.getManifest(reference, options));
  if (!found) return undefined;
  const manifest = manifestSchema.parse(JSON.parse(found.bytes.toString("utf8")));
  return { digest: found.digest, manifest, ...readOrigin(manifest) };
}

/** What tag `hibernate` names, and which nodes have a word in it. */
export interface HibernatedSnapshot extends SnapshotInfo {
  /** The seal names this digest: its VM was removed from its node. */
  readonly sealed: boolean;
  /** Nodes that claim this digest, to restore it. */
  readonly claims: readonly string[];
}

export async function findHibernated(
  repository: Repository,
  options: Abortable,
): Promise<HibernatedSnapshot | undefined> {
  const snapshot = await findSnapshot(repository, hibernateTag, options);
  if (!snapshot) return undefined;
  const [seal, claims] = await Promise.all([
    findDigest(repository, sealTag, options),
    listClaims(repository, { digest: snapshot.digest, known: [hibernateTag] }, options),
  ]);
  return { ...snapshot, sealed: seal === snapshot.digest, claims };
}

/** Nodes whose claim names the digest; claims of older snapshots mean nothing. `known`: see `listTags`. */
export async function listClaims(
  repository: Repository,
  { digest, known }: { readonly digest: string; readonly known: readonly string[] },
  options: Abortable,
): Promise<readonly string[]> {
  const nodes: string[] = [];
  for (const tag of await listTags(repository, { ...options, known })) {
    const node = tryReadClaimTag(tag);
    if (node !== undefined && (await findDigest(repository, tag, options)) === digest) nodes.push(node);
  }
  return nodes;
}

/** One tag of a machine's repository. */
export interface StoredSnapshot {
  /** Name of the machine, which is its repository. */
  readonly vmName: string;
  readonly tag: string;
  readonly purpose: TagPurpose;
  readonly digest: string;
  readonly sizeBytes: number;
  /** When it was pushed, by the clock of the node; "" when it does not say. */
  readonly createdAt: string;
}

/** All snapshots that can be started, by tag. Seal and claims are left out where `hibernate` names the same machine. */
export async function listSnapshots(
  repository: Repository,
  vmName: string,
  options: Abortable,
): Promise<readonly StoredSnapshot[]> {
  const tags = [...(await listTags(repository, options))].sort();
  const found: StoredSnapshot[] = [];
  for (const tag of tags) {
    const purpose = readTagPurpose(tag);
    const follows = tag === sealTag || purpose === "claim";
    if (follows && tags.includes(hibernateTag)) continue;
    const stored = await findManifest(repository, tag, options);
    // An anchor keeps content for later pushes and cannot be started.
    if (!stored || stored.manifest.artifactType === mediaType.snapshotAnchor) continue;
    const { digest, manifest } = stored;
    found.push({
      vmName,
      tag,
      purpose,
      digest,
      sizeBytes: manifest.layers.reduce((sum, { size }) => sum + size, 0),
      createdAt: manifest.annotations?.[manifestAnnotation.created] ?? "",
    });
  }
  return found;
}
