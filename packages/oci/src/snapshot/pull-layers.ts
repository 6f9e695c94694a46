/** Builds the files of a snapshot of version 1 or 2 from its layers. */
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { createZstdDecompress, zstdDecompress } from "node:zlib";
import type { Descriptor, SnapshotPart } from "@cocoon/contract";
import { Fault, isFault, systemCode, type Abortable } from "@cocoon/core";
import type { Repository } from "../registry/repository.ts";
import { mapOrdered } from "../work/parallel.ts";
import type { Meter } from "./progress.ts";
import { SegmentWriter } from "./segments.ts";
import { readSparseMap, type Extent } from "./sparse-map.ts";
import type { Tools } from "./tools.ts";

interface PullLayersOptions extends Tools, Abortable {
  readonly repository: Repository;
  readonly fetching: Meter;
  readonly writing: Meter;
}

/** What the file of a part looks like when it is complete. */
export interface PartShape {
  readonly size: number;
  readonly mode: number;
  readonly segments: readonly Extent[];
}

const defaultMode = 0o640;

export function getPartShape(part: SnapshotPart): PartShape {
  const stored = part.layers.reduce((sum, each) => sum + each.size, 0);
  const body = part.sizeBytes ?? stored;
  const { sparseMap, sparseSize, mode = defaultMode } = part.file;
  if (sparseMap === undefined)
    return { size: body, mode, segments: body === 0 ? [] : [{ offset: 0, length: body }] };
  if (sparseSize === undefined)
    throw new Fault("invalid", `file "${part.name}" has a sparse map but its size is not recorded`);
  return { size: sparseSize, mode, segments: readSparseMap(sparseMap, sparseSize) };
}

/** Writes one file. The layers' digests are checked on the way, the length at the end. */
export async function pullPart(
  part: SnapshotPart,
  target: { readonly fd: number; readonly shape: PartShape },
  options: PullLayersOptions,
): Promise<void> {
  const writer = new SegmentWriter(target.fd, target.shape.segments);
  const take = async (piece: Uint8Array): Promise<void> => {
    await writer.take(piece);
    options.writing.add(piece.length);
  };
  const read = (layer: Descriptor): Promise<Held> => readLayer(layer, part.compressed, options);
  for await (const held of mapOrdered(part.layers, options.transfers, read)) {
    using _room = held.room;
    for await (const piece of held.pieces()) await take(piece);
  }
  writer.finish();
  if (part.sizeBytes !== undefined && writer.takenBytes !== part.sizeBytes)
    throw new Fault(
      "invalid",
      `file "${part.name}" has ${writer.takenBytes} bytes instead of ${part.sizeBytes}`,
    );
}

interface Held {
  readonly room: Disposable;
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** Layers up to this size are fetched ahead and unpacked in memory; larger ones are streamed when their turn comes. */
const smallLayerBytes = 16 * 1024 * 1024;
const smallContentBytes = 64 * 1024 * 1024;
const decompress = promisify(zstdDecompress);

async function readLayer(layer: Descriptor, compressed: boolean, options: PullLayersOptions): Promise<Held> {
  const none: Disposable = { [Symbol.dispose]: () => undefined };
  if (layer.size > smallLayerBytes) {
    const stream = () => openLayer(layer, options);
    return { room: none, pieces: compressed ? () => unpackStream(stream()) : stream };
  }
  const room = await options.budget.acquire(layer.size * 4, options);
  try {
    const bytes = await readWhole(layer, options);
    if (!compressed) return { room, pieces: () => [bytes] };
    const content = await tryDecompress(bytes);
    return { room, pieces: content ? () => [content] : () => unpackStream(Readable.from([bytes])) };
  } catch (error) {
    room[Symbol.dispose]();
    throw error;
  }
}

/** Undefined when the content is too large to be held at once. */
async function tryDecompress(bytes: Uint8Array): Promise<Buffer | undefined> {
  try {
    return await decompress(bytes, { maxOutputLength: smallContentBytes });
  } catch (error) {
    if (systemCode(error) === "ERR_BUFFER_TOO_LARGE") return undefined;
    throw new Fault("invalid", "a layer cannot be decompressed", { cause: error });
  }
}

async function* unpackStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const unpacker = createZstdDecompress();
  const input = Readable.from(source, { objectMode: false });
  input.on("error", (error) => unpacker.destroy(error));
  try {
    for await (const piece of input.pipe(unpacker) as AsyncIterable<Uint8Array>) yield piece;
  } catch (error) {
    if (isFault(error)) throw error;
    throw new Fault("invalid", "a layer cannot be decompressed", { cause: error });
  } finally {
    input.destroy();
  }
}

async function readWhole(layer: Descriptor, options: PullLayersOptions): Promise<Uint8Array> {
  const local = await options.store?.tryReadBlob(layer.digest);
  if (local) return local;
  const bytes = await options.repository.readBlob(layer, options);
  options.fetching.add(bytes.length);
  await options.store?.addBlob(layer.digest, bytes);
  return bytes;
}

async function* openLayer(
  layer: Descriptor,
  { repository, signal, fetching }: PullLayersOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of repository.openBlob(layer, { signal })) {
    fetching.add(piece.length);
    yield piece;
  }
}
