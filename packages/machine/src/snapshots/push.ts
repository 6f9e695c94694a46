/** Pushes a snapshot of a machine and verifies it by reading its tag back. */
import { anchorTag, hibernateTag, manifestAnnotation } from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import type { PushReport, PushSnapshotOptions, Repository, SnapshotClient } from "@cocoon/oci";
import { findManifest } from "./find.ts";
import { isOwnedBy } from "./owner.ts";
import { removeTag, verifyTag } from "./tags.ts";

export interface PushRequest
  extends
    Abortable,
    Pick<
      PushSnapshotOptions,
      "source" | "format" | "level" | "chunkBytes" | "base" | "pinFor" | "onProgress"
    > {
  readonly client: SnapshotClient;
  readonly vmName: string;
  readonly tag: string;
  /** Of the pod. A repository that holds a machine of another namespace is not written to. */
  readonly namespace: string;
  readonly node: string;
  /** Of the VM that was saved. */
  readonly vmId: string;
  readonly baseImage: string;
  /** Digest that the VM was restored from; "" when it was not. */
  readonly restoredFrom: string;
}

/** Where the content is that the machine had when it was pushed last: ahead of a hibernation, or by one. */
const contentTags: readonly string[] = [anchorTag, hibernateTag];

/** Resolves once the registry names the pushed digest under the tag. May be repeated. */
export async function pushVerified(repository: Repository, request: PushRequest): Promise<PushReport> {
  const { client, vmName: _vmName, namespace, node, vmId, baseImage, restoredFrom, ...options } = request;
  const { tag, signal } = request;
  // What is sent ahead belongs to the machine that will be hibernated here.
  for (const each of tag === anchorTag ? [tag, hibernateTag] : [tag])
    await assertPushTarget(repository, { tag: each, namespace }, { signal });
  const known = contentTags.filter((each) => each !== tag); // what the tag itself names is compared anyway
  const report = await client.push({
    ...options,
    base: [...known.map((reference) => ({ repository, reference })), ...(options.base ?? [])],
    repository,
    annotations: {
      [manifestAnnotation.fromNode]: node,
      [manifestAnnotation.namespace]: namespace,
      ...(vmId === "" ? {} : { [manifestAnnotation.vmId]: vmId }),
      ...(restoredFrom === "" ? {} : { [manifestAnnotation.restoredFrom]: restoredFrom }),
    },
    ...(baseImage === "" ? {} : { baseImage }),
  });
  await verifyTag(repository, { digest: report.digest, tag }, { signal });
  if (report.format === "packed" && tag === hibernateTag) await removeAnchor(repository, { signal });
  return report;
}

/** A snapshot says whose it is. */
async function assertPushTarget(
  repository: Repository,
  { tag, namespace }: { readonly tag: string; readonly namespace: string },
  options: Abortable,
): Promise<void> {
  const present = await findManifest(repository, tag, options);
  if (!present || isOwnedBy(present, namespace)) return;
  throw new Fault(
    "forbidden",
    `${repository.name}:${tag} is a snapshot of a machine in namespace ${present.namespace}; a machine of namespace ${namespace} must not overwrite it`,
  );
}

/** The new snapshot names all content that it needs. An anchor that stays costs space until the next wake replaces it. */
async function removeAnchor(repository: Repository, { signal }: Abortable): Promise<void> {
  try {
    await removeTag(repository, anchorTag, { signal });
  } catch (error) {
    if (!isFault(error) || signal.aborted) throw error;
  }
}
