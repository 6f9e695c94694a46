/**
 * The second pass: encodes the chunks that are new and fills packs with them. Encoding runs ahead on the worker
 * threads, packs leave in order; a slow consumer slows the encoding down.
 */
import { createHash } from "node:crypto";
import { Fault, type Abortable } from "@cocoon/core";
import type { EncodeItem, EncodeResult } from "../chunks/worker-protocol.ts";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import { mapOrdered } from "../work/parallel.ts";
import type { FreshChunk, Location } from "./reuse-plan.ts";

export interface EncodeRequest {
  readonly chunk: FreshChunk;
  readonly item: EncodeItem;
}

export interface FilledPack {
  readonly digest: string;
  readonly size: number;
  /** The content, in order. */
  readonly pieces: readonly Uint8Array[];
  readonly locations: readonly Location[];
}

export interface EncodeOptions extends Abortable {
  readonly pool: WorkerPool;
  readonly level: number;
  readonly packBytes: number;
}

const chunksPerTask = 8;

export async function* encodePacks(
  requests: readonly EncodeRequest[],
  { pool, level, packBytes, signal }: EncodeOptions,
): AsyncGenerator<FilledPack, void, undefined> {
  const work = async (batch: readonly EncodeRequest[]): Promise<[readonly EncodeRequest[], EncodeResult]> => [
    batch,
    await pool.run({ kind: "encode", level, items: batch.map((each) => each.item) }, { signal }),
  ];
  let pack = new OpenPack();
  for await (const [batch, result] of mapOrdered(batches(requests), pool.width, work)) {
    if (pack.size > 0 && pack.size + result.bytes.length > packBytes) {
      yield pack.close();
      pack = new OpenPack();
    }
    pack.add(batch, result);
  }
  if (pack.size > 0) yield pack.close();
}

function* batches(requests: readonly EncodeRequest[]): Generator<readonly EncodeRequest[]> {
  for (let at = 0; at < requests.length; at += chunksPerTask) yield requests.slice(at, at + chunksPerTask);
}

class OpenPack {
  size = 0;
  readonly #sum = createHash("sha256");
  readonly #pieces: Uint8Array[] = [];
  readonly #locations: Omit<Location, "pack">[] = [];

  add(batch: readonly EncodeRequest[], result: EncodeResult): void {
    let offset = this.size;
    for (const [index, { length, encoding }] of result.chunks.entries()) {
      const chunk = batch[index]?.chunk;
      if (!chunk) throw new Fault("internal", "a worker encoded more chunks than it was given");
      const place = { id: chunk.id, offset, length, rawLength: chunk.rawLength, encoding };
      this.#locations.push(encoding === "delta" && chunk.base ? { ...place, base: chunk.base } : place);
      offset += length;
    }
    this.#pieces.push(result.bytes);
    this.#sum.update(result.bytes);
    this.size = offset;
  }

  close(): FilledPack {
    const digest = `sha256:${this.#sum.digest("hex")}`;
    const locations = this.#locations.map((each) => ({ ...each, pack: digest }));
    return { digest, size: this.size, pieces: this.#pieces, locations };
  }
}
