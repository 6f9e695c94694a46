/**
 * The content of a snapshot as layers that every reader understands.
 *
 * Version 1: one layer per file; a file with holes travels as its data segments with a map beside it.
 * Version 2: files of a mebibyte and more are cut at fixed offsets of the whole file, holes included, and each cut
 * is compressed by itself. Nothing shifts when a page appears, and all cuts without content are one tiny blob.
 */
import {
  manifestAnnotation,
  maxChunksPerFile,
  snapshotLayerType,
  zstdSuffix,
  type Descriptor,
  type SnapshotFile,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { toBlobContent } from "../registry/blob-content.ts";
import type { Repository } from "../registry/repository.ts";
import { mapOrdered } from "../work/parallel.ts";
import { findSegments } from "./find-segments.ts";
import { Meter, type OnProgress } from "./progress.ts";
import { readSegments } from "./segments.ts";
import type { OpenFile } from "./source.ts";
import { dataBytes, within, writeSparseMap } from "./sparse-map.ts";
import type { Tools } from "./tools.ts";

export interface PushLayersOptions extends Tools, Abortable {
  readonly repository: Repository;
  readonly files: readonly OpenFile[];
  readonly onProgress?: OnProgress;
}

interface EncodedLayers extends PushLayersOptions {
  /** zstd level; 0 = do not compress. */
  readonly level: number;
  /** Cut size; 0 = do not cut; undefined = the smallest that keeps the manifest small. */
  readonly chunkBytes?: number;
}

export interface PushedLayers {
  readonly layers: readonly Descriptor[];
  readonly files: Readonly<Record<string, SnapshotFile>>;
  /** Whether some layer is compressed or cut. */
  readonly encoded: boolean;
  readonly totalBytes: number;
  readonly sentBytes: number;
  /** Stored bytes that the registry had already. */
  readonly reusedBytes: number;
}

interface FileLayers {
  readonly layers: readonly Descriptor[];
  readonly facts: SnapshotFile;
}

/** Files below this are not worth compressing or cutting. */
const smallFileBytes = 1024 * 1024;
const mebibyte = 1024 * 1024;
/** Registries must take manifests of 4 MB; a layer entry is below 500 bytes. */
const mostLayers = 4096;

export async function pushLayers(options: PushLayersOptions | EncodedLayers): Promise<PushedLayers> {
  const totalBytes = options.files.reduce((sum, each) => sum + each.size, 0);
  const job = new LayerJob(options, totalBytes);
  const encoding =
    "level" in options ? { ...options, chunkBytes: chunkBytesFor(options, totalBytes) } : undefined;
  const done: FileLayers[] = [];
  for (const file of options.files) {
    const encode = encoding && shouldEncode(file, encoding);
    done.push(encode ? await pushEncoded(file, encoding, job) : await pushPlain(file, options, job));
  }
  const names = options.files.map((each) => each.name);
  return {
    layers: done.flatMap((each) => each.layers),
    files: Object.fromEntries(done.map((each, index) => [names[index] ?? "", each.facts])),
    encoded: done.some((each) => each.facts.size !== undefined),
    totalBytes,
    ...job.counts(),
  };
}

type Encoding = EncodedLayers & { readonly chunkBytes: number };

function chunkBytesFor({ chunkBytes }: EncodedLayers, totalBytes: number): number {
  if (chunkBytes !== undefined) {
    if (chunkBytes % mebibyte !== 0 || chunkBytes > 4096 * mebibyte)
      throw new Fault("invalid", "the chunk size of version 2 is a whole number of MiB, at most 4096");
    return chunkBytes;
  }
  let size = mebibyte;
  while (totalBytes / size > mostLayers) size *= 2;
  return size;
}

/** By the rules that all writers of version 2 share: compressed files are cut, others only when they are long. */
function shouldEncode(file: OpenFile, { level, chunkBytes }: Encoding): boolean {
  const compress = level > 0 && file.size >= smallFileBytes;
  return compress || (chunkBytes > 0 && file.size > chunkBytes);
}

class LayerJob {
  readonly #options: PushLayersOptions;
  readonly #reading: Meter;
  readonly #sending: Meter;
  readonly #known = new Set<string>();
  #reused = 0;

  constructor(options: PushLayersOptions, totalBytes: number) {
    this.#options = options;
    this.#reading = new Meter("reading", totalBytes, options.onProgress);
    this.#sending = new Meter("sending", 0, options.onProgress);
  }

  read(bytes: number): void {
    this.#reading.add(bytes);
  }

  /** Makes sure that the blob is in the repository; each once. */
  async put(content: Parameters<Repository["putBlob"]>[0]): Promise<void> {
    if (this.#known.has(content.digest)) return;
    this.#known.add(content.digest);
    const { repository, signal } = this.#options;
    this.#sending.expect(content.size);
    const outcome = await repository.putBlob(content, {
      signal,
      onSent: (bytes) => this.#sending.add(bytes),
    });
    if (outcome !== "sent") this.#reused += content.size;
  }

  counts(): { sentBytes: number; reusedBytes: number } {
    return { sentBytes: this.#sending.doneBytes, reusedBytes: this.#reused };
  }
}

async function pushPlain(file: OpenFile, options: PushLayersOptions, job: LayerJob): Promise<FileLayers> {
  const { pool, signal } = options;
  const segments = await findSegments(file, { pool, signal });
  const { digest } = await pool.run({ kind: "digest", fd: file.fd, ranges: segments }, { signal });
  job.read(file.size);
  const size = dataBytes(segments);
  await job.put({ digest, size, open: (offset) => readSegments(file.fd, segments, offset) });
  const sparse = size < file.size ? { sparseMap: writeSparseMap(segments), sparseSize: file.size } : {};
  const layer = {
    mediaType: snapshotLayerType(file.name),
    digest,
    size,
    annotations: { [manifestAnnotation.title]: file.name },
  };
  return { layers: [layer], facts: { mode: file.mode, ...sparse } };
}

interface Cut {
  readonly offset: number;
  readonly length: number;
}

async function pushEncoded(file: OpenFile, options: Encoding, job: LayerJob): Promise<FileLayers> {
  const { pool, budget, store, signal, level } = options;
  const cuts = planCuts(file, options.chunkBytes);
  const compress = level > 0 && file.size >= smallFileBytes;
  const type = `${snapshotLayerType(file.name)}${compress ? zstdSuffix : ""}`;
  const empty = new Map<number, Promise<Omit<Descriptor, "mediaType">>>();
  const push = async (cut: Cut): Promise<Omit<Descriptor, "mediaType">> => {
    // Raw and compressed are in memory together for a moment.
    using _room = await budget.acquire(cut.length * 2, { signal });
    const task = { kind: "frame", fd: file.fd, ...cut, level: compress ? level : 0 } as const;
    const { bytes, digest } = await pool.run(task, { signal });
    await job.put(toBlobContent(bytes, digest));
    options.hold?.add([digest]);
    await store?.addBlob(digest, bytes);
    return { digest, size: bytes.length };
  };
  const pushOnce = (cut: Cut): Promise<Omit<Descriptor, "mediaType">> => {
    if (!within(file.data, cut.offset, cut.offset + cut.length).next().done) return push(cut);
    const known = empty.get(cut.length) ?? push(cut);
    empty.set(cut.length, known);
    return known;
  };
  const width = Math.max(pool.width, options.transfers);
  const layers: Descriptor[] = [];
  for await (const { digest, size } of mapOrdered(cuts, width, pushOnce)) {
    job.read(cuts[layers.length]?.length ?? 0);
    const annotations = {
      [manifestAnnotation.title]: file.name,
      ...buildPlaceAnnotations(layers.length, cuts.length),
    };
    layers.push({ mediaType: type, digest: String(digest), size: Number(size), annotations });
  }
  const chunks = layers.length > 1 ? { chunks: layers.map((each) => each.digest) } : {};
  return { layers, facts: { mode: file.mode, size: file.size, ...chunks } };
}

function planCuts(file: OpenFile, chunkBytes: number): Cut[] {
  const length = chunkBytes > 0 ? chunkBytes : file.size;
  const count = Math.ceil(file.size / length);
  if (count > maxChunksPerFile)
    throw new Fault(
      "tooLarge",
      `${file.name}: more than ${maxChunksPerFile} chunks; choose a larger chunk size`,
    );
  return Array.from({ length: count }, (_, index) => ({
    offset: index * length,
    length: Math.min(length, file.size - index * length),
  }));
}

function buildPlaceAnnotations(index: number, count: number): Record<string, string> {
  if (count < 2) return {};
  return { [manifestAnnotation.chunkIndex]: String(index), [manifestAnnotation.chunkCount]: String(count) };
}
