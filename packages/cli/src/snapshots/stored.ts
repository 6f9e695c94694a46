/** Snapshots of machines as the registry has them. */
import {
  hibernateTag,
  latestTag,
  manifestAnnotation,
  manifestSchema,
  mediaType,
  tryReadReleasedTag,
} from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { deleteByDigest, type Registry, type Repository } from "@cocoon/oci";

/** Our kubelet sets it on the copy of a machine that is surely gone from its node. */
const sealTag = "hibernated";

/** What a machine was replaced by keeps a tag of its own: `latest` moves on. */
const restoredPrefix = "restored-";

export function restoredTag(digest: string): string {
  return `${restoredPrefix}${digest.replace(/^sha256:/, "").slice(0, 12)}`;
}

export interface StoredSnapshot {
  /** Name of the machine, which is its repository. */
  readonly machine: string;
  readonly tag: string;
  readonly digest: string;
  readonly sizeBytes: number;
  /** "" when the snapshot does not say. */
  readonly createdAt: string;
  /** What it is for. */
  readonly kind: "sleeping" | "latest" | "released" | "restored" | "named";
}

export function kindOfTag(tag: string): StoredSnapshot["kind"] {
  if (tag === hibernateTag || tag === sealTag) return "sleeping";
  if (tag === latestTag) return "latest";
  if (tryReadReleasedTag(tag)) return "released";
  return tag.startsWith(restoredPrefix) ? "restored" : "named";
}

/** All of one machine, the seal left out: it names what `hibernate` names. */
export async function snapshotsOf(
  registry: Registry,
  machine: string,
  options: Abortable,
): Promise<StoredSnapshot[]> {
  const repository = registry.repository(machine);
  const tags = await tagsOf(repository, options);
  const found: StoredSnapshot[] = [];
  for (const tag of tags.filter((each) => each !== sealTag || !tags.includes(hibernateTag))) {
    const snapshot = await readStored(repository, { machine, tag }, options);
    if (snapshot) found.push(snapshot);
  }
  return found;
}

async function tagsOf(repository: Repository, options: Abortable): Promise<string[]> {
  try {
    return (await Array.fromAsync(repository.tags(options))).sort();
  } catch (error) {
    if (isFault(error, "notFound")) return [];
    throw error;
  }
}

/** Undefined when it went meanwhile, or when it only keeps content for later pushes and cannot be started. */
async function readStored(
  repository: Repository,
  { machine, tag }: { readonly machine: string; readonly tag: string },
  options: Abortable,
): Promise<StoredSnapshot | undefined> {
  try {
    const { digest, bytes } = await repository.getManifest(tag, options);
    const manifest = manifestSchema.parse(JSON.parse(Buffer.from(bytes).toString("utf8")));
    if (manifest.artifactType === mediaType.snapshotAnchor) return undefined;
    const sizeBytes = manifest.layers.reduce((sum, { size }) => sum + size, 0);
    const createdAt = manifest.annotations?.[manifestAnnotation.created] ?? "";
    return { machine, tag, digest, sizeBytes, createdAt, kind: kindOfTag(tag) };
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}

/** Removes one tag; the content goes unless another tag names it. False when the tag was not there. */
export async function removeSnapshot(
  registry: Registry,
  { machine, tag }: { readonly machine: string; readonly tag: string },
  options: Abortable,
): Promise<boolean> {
  if (kindOfTag(tag) === "sleeping")
    throw new Fault(
      "conflict",
      `${machine}:${tag} is what the machine sleeps in, its only copy: it is not removed. Wake the machine and it goes by itself, or delete the set with spec.deletionPolicy: Purge`,
    );
  const repository = registry.repository(machine);
  const digest = (await repository.headManifest(tag, options))?.digest;
  if (digest === undefined) return false;
  for (const other of (await tagsOf(repository, options)).filter((each) => each !== tag))
    if ((await repository.headManifest(other, options))?.digest === digest)
      return repository.deleteManifest(tag, options);
  return deleteByDigest(repository, digest, options);
}
