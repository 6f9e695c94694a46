/** A storage that is slow or full on demand, and otherwise does what the one behind it does. */
import { setTimeout as delay } from "node:timers/promises";
import type { StorageKey } from "../storage/layout.ts";
import type { LocalFile, ObjectInfo, OpenObject, Storage, VersionedObject } from "../storage/storage.ts";

export interface Faults {
  /** Every operation takes so much longer. */
  delayMs: number;
  /** How many bytes still fit; what does not fit fails as on a full disk. */
  freeBytes: number;
}

export function faultyStorage(inner: Storage, faults: Faults): Storage {
  return new FaultyStorage(inner, faults);
}

class FaultyStorage implements Storage {
  readonly #inner: Storage;
  readonly #faults: Faults;

  constructor(inner: Storage, faults: Faults) {
    this.#inner = inner;
    this.#faults = faults;
  }

  get description(): string {
    return this.#inner.description;
  }

  get isShared(): boolean {
    return this.#inner.isShared;
  }

  get localUploadDirectory(): string | undefined {
    return this.#inner.localUploadDirectory;
  }

  async #slow(): Promise<void> {
    if (this.#faults.delayMs > 0) await delay(this.#faults.delayMs);
  }

  async #fit(bytes: number): Promise<void> {
    await this.#slow();
    if (bytes > this.#faults.freeBytes)
      throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
    this.#faults.freeBytes -= bytes;
  }

  async get(key: StorageKey): Promise<Buffer | undefined> {
    await this.#slow();
    return this.#inner.get(key);
  }

  async stat(key: StorageKey): Promise<ObjectInfo | undefined> {
    await this.#slow();
    return this.#inner.stat(key);
  }

  async open(key: StorageKey): Promise<OpenObject | undefined> {
    await this.#slow();
    return this.#inner.open(key);
  }

  async put(key: StorageKey, content: Uint8Array): Promise<void> {
    await this.#fit(content.length);
    await this.#inner.put(key, content);
  }

  async putFile(key: StorageKey, file: LocalFile): Promise<void> {
    await this.#fit(file.sizeBytes);
    await this.#inner.putFile(key, file);
  }

  async putIf(
    key: StorageKey,
    content: Uint8Array,
    version: string | undefined,
  ): Promise<string | undefined> {
    await this.#fit(content.length);
    return this.#inner.putIf(key, content, version);
  }

  async getVersioned(key: StorageKey): Promise<VersionedObject | undefined> {
    await this.#slow();
    return this.#inner.getVersioned(key);
  }

  async touch(key: StorageKey): Promise<boolean> {
    await this.#slow();
    return this.#inner.touch(key);
  }

  async delete(key: StorageKey): Promise<boolean> {
    await this.#slow();
    return this.#inner.delete(key);
  }

  list(prefix: string): AsyncIterable<ObjectInfo> {
    return this.#inner.list(prefix);
  }

  listNames(prefix: string): AsyncIterable<string> {
    return this.#inner.listNames(prefix);
  }

  listPage(prefix: string, page: { readonly after: string; readonly limit: number }): Promise<string[]> {
    return this.#inner.listPage(prefix, page);
  }

  now(): Promise<number> {
    return this.#inner.now();
  }

  sweepUnfinished(olderThanMs: number): Promise<number> {
    return this.#inner.sweepUnfinished(olderThanMs);
  }

  async check(): Promise<void> {
    await this.#fit(16);
    this.#faults.freeBytes += 16;
    await this.#inner.check();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#inner[Symbol.asyncDispose]();
  }
}
