/** What is said between the main thread and those that hash and write. Each order is answered once, in order. */
import type { DigestAlgorithm } from "../names.ts";

export interface WriteOrder {
  readonly kind: "write";
  readonly number: number;
  readonly upload: number;
  readonly file: number;
  readonly position: number;
  /** Those of shared memory are left alone once the order is answered. */
  readonly pieces: readonly Uint8Array[];
  /** Undefined where the digest is of no use any more. */
  readonly algorithm: DigestAlgorithm | undefined;
}

/** The upload is over; the answer has the digest of everything that was written. */
interface EndOrder {
  readonly kind: "end";
  readonly number: number;
  readonly upload: number;
}

export type Order = WriteOrder | EndOrder;

export interface Answer {
  readonly number: number;
  /** What is in the file of this order's pieces, also after a failure. */
  readonly writtenBytes: number;
  /** In hex; undefined when there is none. */
  readonly digest: string | undefined;
  readonly failure: { readonly message: string; readonly code: string | undefined } | undefined;
}
