/**
 * The port to where everything is kept: named objects that are whole or not there. Nothing here knows what a
 * manifest is. Its implementations (filesystem, S3, the fake) pass one contract suite, `testing/storage-contract.ts`.
 */
import type { Writable } from "node:stream";
import type { StorageKey } from "./layout.ts";

export interface ObjectInfo {
  readonly key: StorageKey;
  readonly sizeBytes: number;
  /** By the storage's own clock; see `Storage.now`. */
  readonly modifiedAtMs: number;
}

export interface ByteRange {
  readonly start: number;
  /** The last byte, inclusive, as in HTTP. */
  readonly end: number;
}

/** An object that was found and can be read, even if it is deleted or replaced meanwhile. Close it when done. */
export interface OpenObject extends AsyncDisposable {
  readonly sizeBytes: number;
  /**
   * Writes the bytes of the range, or all, into the sink without ending it, no faster than the sink takes them.
   * Rejects when the object turns out shorter than announced, the sink fails or the signal aborts.
   */
  copyTo(sink: Writable, options: CopyOptions): Promise<void>;
  readAll(): Promise<Buffer>;
}

export interface CopyOptions {
  readonly signal: AbortSignal;
  readonly range?: ByteRange | undefined;
}

export interface VersionedObject {
  readonly content: Buffer;
  readonly version: string;
  readonly modifiedAtMs: number;
}

/** A complete file on local disk that is to become an object. */
export interface LocalFile {
  readonly path: string;
  readonly sizeBytes: number;
}

export interface Storage extends AsyncDisposable {
  /** For logs and messages: what and where, without secrets. */
  readonly description: string;
  readonly isShared: boolean;
  /** A directory on the same disk, where a local file can become an object without being copied; if there is one. */
  readonly localUploadDirectory: string | undefined;

  /** The whole object; undefined when there is none. Meant for small ones. */
  get(key: StorageKey): Promise<Buffer | undefined>;
  stat(key: StorageKey): Promise<ObjectInfo | undefined>;
  open(key: StorageKey): Promise<OpenObject | undefined>;
  /**
   * Makes or replaces an object. When it resolves, the object survives a power cut; until then readers see the old
   * one, or none. May be repeated.
   */
  put(key: StorageKey, content: Uint8Array): Promise<void>;
  /**
   * Like `put`, but only when the object has that version, or does not exist when none is given. The new version;
   * undefined when the condition did not hold. Of several processes at the same time, one succeeds.
   */
  putIf(key: StorageKey, content: Uint8Array, version: string | undefined): Promise<string | undefined>;
  getVersioned(key: StorageKey): Promise<VersionedObject | undefined>;
  /** Like `put`, out of a local file, which is gone afterwards. When it fails, the file is still there. */
  putFile(key: StorageKey, file: LocalFile): Promise<void>;
  /** Sets the object's time to now. False when there is no such object. */
  touch(key: StorageKey): Promise<boolean>;
  /** Removes it for good; says whether there was one. */
  delete(key: StorageKey): Promise<boolean>;
  /** Every object whose key starts with the prefix, which ends with "/" or is empty; in no particular order. */
  list(prefix: string): AsyncIterable<ObjectInfo>;
  /** The names directly below a prefix that ends with "/", whether objects or prefixes; in no particular order. */
  listNames(prefix: string): AsyncIterable<string>;
  /** Names of objects directly below a prefix that ends with "/", in byte order: at most `limit` after the given one. */
  listPage(prefix: string, page: { readonly after: string; readonly limit: number }): Promise<string[]>;
  /** The time that an object written now would get: leases are compared with this clock, never with ours. */
  now(): Promise<number>;
  /** Removes unfinished writes that are older; returns how many. */
  sweepUnfinished(olderThanMs: number): Promise<number>;
  /** Writes, reads back and removes an object; throws when the storage does not work. */
  check(): Promise<void>;
}
