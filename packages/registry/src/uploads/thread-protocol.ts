/** Messages between the main thread and the threads that hash and write. Each order is answered once, in order. */
import type { DigestAlgorithm } from "../names.ts";

export interface WriteOrder {
  readonly kind: "write";
  readonly number: number;
  readonly upload: number;
  readonly file: number;
  readonly position: number;
  readonly pieces: readonly ArrayBuffer[];
  /** Undefined when no digest is needed. */
  readonly algorithm: DigestAlgorithm | undefined;
}

/** Ends the upload; the answer holds the digest of everything that was written. */
interface EndOrder {
  readonly kind: "end";
  readonly number: number;
  readonly upload: number;
}

export type Order = WriteOrder | EndOrder;

export interface Answer {
  readonly number: number;
  /** Bytes of this order that are in the file, also after a failure. */
  readonly writtenBytes: number;
  /** Set in the answer to an end order of an upload that was hashed. */
  readonly hashed: HashedContent | undefined;
  readonly failure: { readonly message: string; readonly code: string | undefined } | undefined;
}

/** What the digest covers: the file is what was hashed only if it has exactly this many bytes. */
export interface HashedContent {
  readonly hex: string;
  readonly sizeBytes: number;
}
