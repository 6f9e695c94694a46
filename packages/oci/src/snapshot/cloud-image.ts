/** Cloud images in a registry: one disk, whole or in parts whose titles sort in order. */
import { basename } from "node:path";
import {
  cloudImageDisk,
  emptyConfig,
  isTag,
  manifestAnnotation,
  mediaType,
  readCloudImageManifest,
  type Descriptor,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { toBlobContent } from "../registry/blob-content.ts";
import type { Repository } from "../registry/repository.ts";
import { Meter, type OnProgress } from "./progress.ts";
import { parseJson } from "../parse-json.ts";
import { resolveManifest } from "./read-snapshot.ts";
import { readSegments } from "./segments.ts";
import { openSource, type OpenFile } from "./source.ts";
import { storeArtifact } from "./store-artifact.ts";
import type { Tools } from "./tools.ts";
import type { PushReport } from "./push-snapshot.ts";
import type { PullSnapshotOptions } from "./pull-snapshot.ts";

export interface PushCloudImageOptions extends Abortable {
  readonly path: string;
  readonly repository: Repository;
  readonly tag: string;
  readonly format: "qcow2" | "raw";
  /** Cut the disk into parts of this size, for registries that refuse large blobs. */
  readonly partBytes?: number;
  readonly now?: Date;
  readonly onProgress?: OnProgress;
}

export type CloudImageReport = Pick<PushReport, "digest" | "bytesSent" | "bytesReused">;

export async function pushCloudImage(
  options: PushCloudImageOptions,
  tools: Tools,
): Promise<CloudImageReport> {
  const { repository, tag, signal } = options;
  if (!isTag(tag)) throw new Fault("invalid", `"${tag.slice(0, 200)}" is not a tag`);
  await using source = await openSource([{ name: basename(options.path), path: options.path }]);
  const [file] = source.files;
  if (!file || file.size === 0) throw new Fault("invalid", `${options.path} is empty`);
  const sending = new Meter("sending", file.size, options.onProgress);
  const layers: Descriptor[] = [];
  let reused = 0;
  for (const part of listParts(file, options)) {
    const range = [{ offset: part.offset, length: part.length }];
    const { digest } = await tools.pool.run({ kind: "digest", fd: file.fd, ranges: range }, { signal });
    const content = { digest, size: part.length, open: (at: number) => readSegments(file.fd, range, at) };
    const outcome = await repository.putBlob(content, { signal, onSent: (bytes) => sending.add(bytes) });
    if (outcome !== "sent") reused += part.length;
    const annotations = { [manifestAnnotation.title]: part.title };
    layers.push({ mediaType: part.mediaType, digest, size: part.length, annotations });
  }
  await repository.putBlob(toBlobContent(Buffer.from("{}")), { signal });
  const created = (options.now ?? new Date()).toISOString().replace(/\.\d+Z$/, "Z");
  const manifest = {
    schemaVersion: 2 as const,
    mediaType: mediaType.ociManifest,
    artifactType: mediaType.osImage,
    config: { ...emptyConfig },
    layers,
    annotations: { [manifestAnnotation.created]: created },
  };
  const artifact = await storeArtifact(manifest, { repository, tag, signal, transfers: tools.transfers });
  return {
    digest: artifact.digest,
    bytesSent: sending.doneBytes + artifact.bytes.length,
    bytesReused: reused,
  };
}

interface Part {
  readonly offset: number;
  readonly length: number;
  readonly title: string;
  readonly mediaType: string;
}

/** Numbers of equal width, so that the order of bytes is the order of parts. */
function listParts(file: OpenFile, { format, partBytes = file.size }: PushCloudImageOptions): Part[] {
  const type = format === "qcow2" ? mediaType.diskQcow2 : mediaType.diskRaw;
  const count = Math.ceil(file.size / partBytes);
  if (count < 2) return [{ offset: 0, length: file.size, title: file.name, mediaType: type }];
  const digits = Math.max(2, String(count - 1).length);
  return Array.from({ length: count }, (_, index) => ({
    offset: index * partBytes,
    length: Math.min(partBytes, file.size - index * partBytes),
    title: `${file.name}.${String(index).padStart(digits, "0")}.${format}.part`,
    mediaType: `${type}.part`,
  }));
}

type OpenCloudImageOptions = Pick<PullSnapshotOptions, "repository" | "reference" | "onProgress" | "signal">;

interface OpenedCloudImage {
  readonly digest: string;
  readonly size: number;
  /** The disk. Each part is checked by the time it ends; a reader that got an error has nothing. */
  readonly content: AsyncIterable<Uint8Array>;
}

/** `notFound` when there is nothing, `invalid` when it is no cloud image. */
export async function openCloudImage(options: OpenCloudImageOptions): Promise<OpenedCloudImage> {
  const { repository, reference, signal } = options;
  const { digest, bytes } = await resolveManifest(repository, reference, { signal });
  const disk = cloudImageDisk(readCloudImageManifest(parseJson(bytes, "manifest")));
  const size = disk.reduce((sum, each) => sum + each.size, 0);
  const fetching = new Meter("fetching", size, options.onProgress);
  async function* content(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const layer of disk) {
      for await (const piece of repository.openBlob(layer, { signal })) {
        fetching.add(piece.length);
        yield piece;
      }
    }
  }
  return { digest, size, content: content() };
}
