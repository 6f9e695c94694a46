/** Puts a snapshot without content into a registry, as another writer would have pushed it. */
import { createHash } from "node:crypto";
import { manifestAnnotation, mediaType } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import type { Registry } from "@cocoon/oci";

export interface TestSnapshot {
  readonly vmName: string;
  readonly tag: string;
  readonly snapshotId: string;
  readonly fromNode?: string;
  readonly namespace?: string;
  readonly restoredFrom?: string;
  readonly created?: string;
}

/** Returns the digest. */
export async function putTestSnapshot(
  registry: Registry,
  snapshot: TestSnapshot,
  { signal }: Abortable,
): Promise<string> {
  const repository = registry.repository(snapshot.vmName);
  const config = Buffer.from(JSON.stringify({ schemaVersion: "v1", snapshotId: snapshot.snapshotId }));
  const digest = `sha256:${createHash("sha256").update(config).digest("hex")}`;
  const open = async function* () {
    yield config;
  };
  await repository.putBlob({ digest, size: config.length, open }, { signal });
  const { fromNode, namespace, restoredFrom, created = "2026-01-02T03:04:05Z" } = snapshot;
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaType.ociManifest,
    artifactType: mediaType.snapshotV1,
    config: { mediaType: mediaType.snapshotConfig, digest, size: config.length },
    layers: [],
    annotations: {
      [manifestAnnotation.created]: created,
      ...(fromNode === undefined ? {} : { [manifestAnnotation.fromNode]: fromNode }),
      ...(namespace === undefined ? {} : { [manifestAnnotation.namespace]: namespace }),
      ...(restoredFrom === undefined ? {} : { [manifestAnnotation.restoredFrom]: restoredFrom }),
    },
  };
  const bytes = Buffer.from(JSON.stringify(manifest, null, 2));
  return repository.putManifest(snapshot.tag, { bytes, mediaType: mediaType.ociManifest }, { signal });
}
