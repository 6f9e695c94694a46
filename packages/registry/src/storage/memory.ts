/** Objects in memory: for tests and throw-away registries. Everything is gone when the process ends. */
import { readFile, rm } from "node:fs/promises";
import type { Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import type { StorageKey } from "./layout.ts";
import type { CopyOptions, LocalFile, ObjectInfo, OpenObject, Storage } from "./storage.ts";
import { writeTo } from "./write-to.ts";

interface Entry {
  readonly content: Buffer;
  modifiedAtMs: number;
}

export function openMemoryStorage({ now = Date.now }: { now?: () => number } = {}): Storage {
  return new MemoryStorage(now);
}

class MemoryStorage implements Storage {
  readonly description = "memory";
  readonly localUploadDirectory = undefined;
  readonly #entries = new Map<StorageKey, Entry>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  async get(key: StorageKey): Promise<Buffer | undefined> {
    const entry = this.#entries.get(key);
    return entry && Buffer.from(entry.content);
  }

  async stat(key: StorageKey): Promise<ObjectInfo | undefined> {
    const entry = this.#entries.get(key);
    return entry && infoOf(key, entry);
  }

  async open(key: StorageKey): Promise<OpenObject | undefined> {
    const entry = this.#entries.get(key);
    return entry && openBuffer(entry.content);
  }

  async put(key: StorageKey, content: Uint8Array): Promise<void> {
    this.#entries.set(key, { content: Buffer.from(content), modifiedAtMs: this.#now() });
  }

  async putFile(key: StorageKey, { path, sizeBytes }: LocalFile): Promise<void> {
    const content = await readFile(path);
    if (content.length !== sizeBytes)
      throw new Fault("internal", `${path} has ${content.length} bytes, not ${sizeBytes}`);
    await this.put(key, content);
    await rm(path);
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
    for (const [key, entry] of this.#entries) if (key.startsWith(prefix)) yield infoOf(key, entry);
  }

  async *listNames(prefix: string): AsyncIterable<string> {
    const names = new Set<string>();
    for (const key of this.#entries.keys())
      if (key.startsWith(prefix)) names.add(key.slice(prefix.length).split("/")[0] ?? "");
    yield* names;
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

function infoOf(key: StorageKey, { content, modifiedAtMs }: Entry): ObjectInfo {
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
