/** Reads stored content and compares it with its digest. */
import { Writable } from "node:stream";
import { RunningDigest, getAlgorithm, type Digest } from "../names.ts";
import { layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

export type BlobState =
  | { readonly kind: "intact"; readonly sizeBytes: number }
  | { readonly kind: "missing" }
  | { readonly kind: "damaged"; readonly sizeBytes: number; readonly actual: Digest };

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** Called after every piece that was read; reading continues when it resolves. */
  readonly pace?: (bytes: number) => Promise<void>;
  readonly sizeBytes?: number;
}

/** A storage that cannot be read throws: that says nothing about the content. */
export async function verifyBlob(
  storage: Storage,
  digest: Digest,
  { signal, pace, sizeBytes }: VerifyOptions,
): Promise<BlobState> {
  await using blob = await storage.open(layout.blob(digest));
  if (!blob) return { kind: "missing" };
  const running = new RunningDigest(getAlgorithm(digest));
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      running.update(chunk);
      const paced = pace?.(chunk.length) ?? Promise.resolve();
      void paced.then(
        () => setImmediate(done),
        (error: unknown) => sink.destroy(error instanceof Error ? error : new Error(String(error))),
      );
    },
  });
  const end = Math.min(blob.sizeBytes, sizeBytes ?? blob.sizeBytes) - 1;
  if (end >= 0) await blob.copyTo(sink, { signal, range: { start: 0, end } });
  const actual = running.digest();
  return actual === digest
    ? { kind: "intact", sizeBytes: blob.sizeBytes }
    : { kind: "damaged", sizeBytes: blob.sizeBytes, actual };
}
