/** Objects in memory; passes the contract suite of `storage-contract.ts`. */
import { readFile, rm } from "node:fs/promises";
import type { Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import type { StorageKey } from "../storage/layout.ts";
import type {
  CopyOptions,
  LocalFile,
  ObjectInfo,
  OpenObject,
  Storage,
  VersionedObject,
} from "../storage/storage.ts";
import { writeTo } from "../storage/write-to.ts";

interface Entry {
  readonly content: Buffer;
  modifiedAtMs: number;
  readonly version: string;
}

export function openFakeStorage({ now = Date.now }: { now?: () => number } = {}): Storage {
  return new FakeStorage(now);
}

class FakeStorage implements Storage {
  readonly description = "memory";
  readonly isShared = false;
  readonly localUploadDirectory = undefined;
  readonly #entries = new Map<StorageKey, Entry>();
  readonly #now: () => number;
  #lastVersion = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  async get(key: StorageKey): Promise<Buffer | undefined> {
    const entry = this.#entries.get(key);
    return entry && Buffer.from(entry.content);
  }

  async stat(key: StorageKey): Promise<ObjectInfo | undefined> {
    const entry = this.#entries.get(key);
    return entry && toInfo(key, entry);
  }

  async open(key: StorageKey): Promise<OpenObject | undefined> {
    const entry = this.#entries.get(key);
    return entry && openBuffer(entry.content);
  }

  async put(key: StorageKey, content: Uint8Array): Promise<void> {
    this.#entries.set(key, {
      content: Buffer.from(content),
      modifiedAtMs: this.#now(),
      version: String((this.#lastVersion += 1)),
    });
  }

  async putFile(key: StorageKey, { path, sizeBytes }: LocalFile): Promise<void> {
    const content = await readFile(path);
    if (content.length !== sizeBytes)
      throw new Fault("internal", `${path} has ${content.length} bytes, not ${sizeBytes}`);
    await this.put(key, content);
    await rm(path);
  }

  async putIf(
    key: StorageKey,
    content: Uint8Array,
    version: string | undefined,
  ): Promise<string | undefined> {
    const entry = this.#entries.get(key);
    if (entry?.version !== version) return undefined;
    await this.put(key, content);
    return this.#entries.get(key)?.version;
  }

  async getVersioned(key: StorageKey): Promise<VersionedObject | undefined> {
    const entry = this.#entries.get(key);
    return entry && { ...entry, content: Buffer.from(entry.content) };
  }

  async touch(key: StorageKey): Promise<boolean> {
    const entry = this.#entries.get(key);
    if (entry) entry.modifiedAtMs = this.#now();
    return entry !== undefined;
  }

  async delete(key: StorageKey): Promise<boolean> {
    return this.#entries.delete(key);
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    for (const [key, entry] of this.#entries) if (key.startsWith(prefix)) yield toInfo(key, entry);
  }

  async *listNames(prefix: string): AsyncIterable<string> {
    const names = new Set<string>();
    for (const key of this.#entries.keys())
      if (key.startsWith(prefix)) names.add(key.slice(prefix.length).split("/")[0] ?? "");
    yield* names;
  }

  async listPage(prefix: string, { after, limit }: { after: string; limit: number }): Promise<string[]> {
    const names = await Array.fromAsync(this.listNames(prefix));
    return names
      .filter((name) => name > after)
      .sort()
      .slice(0, limit);
  }

  async now(): Promise<number> {
    return this.#now();
  }

  async sweepUnfinished(): Promise<number> {
    return 0;
  }

  async check(): Promise<void> {
    // memory is always there
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#entries.clear();
  }
}

function toInfo(key: StorageKey, { content, modifiedAtMs }: Entry): ObjectInfo {
  return { key, sizeBytes: content.length, modifiedAtMs };
}

function openBuffer(content: Buffer): OpenObject {
  return {
    sizeBytes: content.length,
    copyTo: (sink, options) => copyBuffer(content, sink, options),
    readAll: async () => Buffer.from(content),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function copyBuffer(content: Buffer, sink: Writable, { range, signal }: CopyOptions): Promise<void> {
  const part = range ? content.subarray(range.start, range.end + 1) : content;
  await writeTo(sink, part, signal);
}
