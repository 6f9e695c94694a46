/**
 * What the main thread and the worker threads say to each other. File descriptors are those of the process, so
 * workers read sources and write targets themselves; only compressed bytes and digests cross the border, and
 * buffers are handed over, not copied.
 */
import type { Encoding } from "./codec.ts";

/** An encoded chunk at its place in a pack or file. */
export interface StoredChunk {
  /** Hex of the sha256 of the content. */
  readonly id: string;
  readonly offset: number;
  readonly length: number;
  readonly rawLength: number;
  readonly encoding: Encoding;
}

/** Where the encoded bytes of a chunk are. */
export interface ChunkLocator extends StoredChunk {
  readonly path: string;
  /** What a delta stands on. */
  readonly base?: ChunkLocator | RawCandidate;
}

/** A place in an open file. */
export interface FilePlace {
  readonly fd: number;
  readonly offset: number;
}

/** Content that may be a chunk: believed only when its digest fits. */
export interface RawCandidate extends FilePlace {
  readonly id: string;
  readonly rawLength: number;
}

/** Cuts a range into chunks and names each one. */
export interface HashTask extends FilePlace {
  readonly kind: "hash";
  readonly length: number;
  readonly chunkBytes: number;
}
export interface HashResult {
  /** 32 bytes per chunk; all zero for a chunk that is. */
  readonly digests: Uint8Array;
}

export interface EncodeItem extends FilePlace {
  readonly id: string;
  readonly rawLength: number;
  /** Content to encode against, if it turns out to be what it should be. */
  readonly base?: ChunkLocator | RawCandidate;
}
/** Encodes chunks that were named before; a source that changed since is an error. */
export interface EncodeTask {
  readonly kind: "encode";
  readonly level: number;
  readonly items: readonly EncodeItem[];
}
export interface EncodeResult {
  readonly bytes: Uint8Array;
  readonly chunks: readonly { readonly length: number; readonly encoding: Encoding }[];
}

export interface DecodeItem {
  /** Where the chunk may be found, best first. */
  readonly candidates: readonly (ChunkLocator | RawCandidate)[];
  readonly targets: readonly FilePlace[];
}
/** Finds, checks and writes chunks. */
export interface DecodeTask {
  readonly kind: "decode";
  readonly items: readonly DecodeItem[];
}
export interface DecodeResult {
  /** For each item the candidate that held it, or -1 when none did. */
  readonly found: readonly number[];
  /** What was wrong with candidates that did not fit, for the log; at most a few. */
  readonly problems: readonly string[];
}

/** Compresses a range as one frame (or takes it as it is at level 0) and names the result. */
export interface FrameTask extends FilePlace {
  readonly kind: "frame";
  readonly length: number;
  readonly level: number;
}
export interface FrameResult {
  readonly bytes: Uint8Array;
  readonly digest: string;
}

/** Names a sequence of ranges, read one after the other. */
export interface DigestTask {
  readonly kind: "digest";
  readonly fd: number;
  readonly ranges: readonly { readonly offset: number; readonly length: number }[];
}
export interface DigestResult {
  readonly digest: string;
}

/** Finds the pages of a range that hold something. */
export interface ScanTask extends FilePlace {
  readonly kind: "scan";
  readonly length: number;
}
export interface ScanResult {
  readonly ranges: readonly { readonly offset: number; readonly length: number }[];
}

export interface TaskResults {
  readonly hash: HashResult;
  readonly encode: EncodeResult;
  readonly decode: DecodeResult;
  readonly frame: FrameResult;
  readonly digest: DigestResult;
  readonly scan: ScanResult;
}
export type Task = HashTask | EncodeTask | DecodeTask | FrameTask | DigestTask | ScanTask;

export interface TaskMessage {
  readonly number: number;
  readonly task: Task;
}

export type AnswerMessage = { readonly number: number } & (
  | { readonly result: TaskResults[Task["kind"]] }
  | { readonly error: { readonly name: string; readonly message: string; readonly code?: string } }
);
