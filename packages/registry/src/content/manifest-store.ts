/**
 * Manifests, tags and referrers of every repository. Changes of one repository happen one after the other; reads
 * wait for nobody. The order of writes is that of `storage/layout.ts`: a reader, or a crash, between any two of them
 * finds either the old state or the new one, and no tag without its manifest.
 */
import * as z from "zod";
import { Fault } from "@cocoon/core";
import { tryDigest, type Digest, type RepositoryName, type Tag } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import { folders, layout, readName } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import type { BlobStore } from "./blob-store.ts";
import type { KeyedLock } from "./keyed-lock.ts";
import { neededBlobs, type Manifest } from "./manifest.ts";
import { readRecord, writeRecord, type StoredManifest } from "./manifest-record.ts";
import type { SweepGate } from "./sweep-gate.ts";

export interface ManifestStoreOptions {
  readonly storage: Storage;
  readonly blobs: BlobStore;
  readonly gate: SweepGate;
  readonly repositories: KeyedLock<RepositoryName>;
  /** Called after a manifest or tag of the repository came or went. */
  readonly onChange?: (name: RepositoryName) => void;
  readonly now?: () => number;
}

export interface NewManifest {
  readonly digest: Digest;
  readonly bytes: Uint8Array;
  readonly manifest: Manifest;
  readonly tags: readonly Tag[];
}

export interface TagRecord {
  readonly digest: Digest;
  readonly pushedAt: string;
}

export interface NamedTag extends TagRecord {
  readonly tag: Tag;
}

/** How many small reads go out at once: a snapshot in small chunks names thousands of blobs. */
const batchSize = 64;

const tagWire = z.object({ digest: z.string(), pushedAt: z.string() });

export class ManifestStore {
  readonly #storage: Storage;
  readonly #blobs: BlobStore;
  readonly #gate: SweepGate;
  readonly #repositories: KeyedLock<RepositoryName>;
  readonly #onChange: (name: RepositoryName) => void;
  readonly #now: () => number;

  constructor({ storage, blobs, gate, repositories, ...rest }: ManifestStoreOptions) {
    const { onChange = () => undefined, now = Date.now } = rest;
    this.#onChange = onChange;
    this.#storage = storage;
    this.#blobs = blobs;
    this.#gate = gate;
    this.#repositories = repositories;
    this.#now = now;
  }

  /** Stores a manifest whose blobs are all here, and moves the tags to it. May be repeated. */
  async put(name: RepositoryName, given: NewManifest): Promise<void> {
    const needed = neededBlobs(given.manifest);
    await this.#gate.useAll(needed, async () => {
      await this.#assertBlobs(name, needed);
      await this.#change(name, () => this.#write(name, given));
    });
  }

  /** One change of a repository at a time; told even when it failed, since a part of it may have happened. */
  #change<T>(name: RepositoryName, action: () => Promise<T>): Promise<T> {
    return this.#repositories.run(name, async () => {
      try {
        return await action();
      } finally {
        this.#onChange(name);
      }
    });
  }

  async #write(name: RepositoryName, { digest, bytes, manifest, tags }: NewManifest): Promise<void> {
    const pushedAt = new Date(this.#now()).toISOString();
    const subject = manifest.subject?.digest;
    if (subject) await this.#storage.put(layout.referrer(name, { subject, digest }), new Uint8Array());
    const record = writeRecord({ mediaType: manifest.mediaType, pushedAt }, bytes);
    await this.#storage.put(layout.manifest(name, digest), record);
    const tagRecord: TagRecord = { digest, pushedAt };
    for (const tag of tags)
      await this.#storage.put(layout.tag(name, tag), Buffer.from(`${JSON.stringify(tagRecord)}\n`));
  }

  async #assertBlobs(name: RepositoryName, needed: readonly Digest[]): Promise<void> {
    for (let start = 0; start < needed.length; start += batchSize) {
      const part = needed.slice(start, start + batchSize);
      const sizes = await Promise.all(part.map((digest) => this.#blobs.find(name, digest)));
      const missing = part.filter((_digest, index) => sizes[index] === undefined);
      if (missing.length > 0)
        throw ociFault("MANIFEST_BLOB_UNKNOWN", `${name} does not hold ${missing.join(", ")}; push it first`);
    }
  }

  async get(name: RepositoryName, digest: Digest): Promise<StoredManifest | undefined> {
    const record = await this.#storage.get(layout.manifest(name, digest));
    return record && readRecord(digest, record);
  }

  /** The manifest a tag or digest stands for. */
  async resolve(name: RepositoryName, reference: Tag | Digest): Promise<StoredManifest | undefined> {
    const digest = tryDigest(reference);
    if (digest) return this.get(name, digest);
    const tag = await this.tag(name, reference as Tag);
    return tag && this.get(name, tag.digest);
  }

  async tag(name: RepositoryName, tag: Tag): Promise<TagRecord | undefined> {
    const record = await this.#storage.get(layout.tag(name, tag));
    return record && readTag(record, `${name}:${tag}`);
  }

  /** All tags of the repository, in byte order. */
  async tags(name: RepositoryName): Promise<Tag[]> {
    const tags: Tag[] = [];
    for await (const each of this.#storage.listNames(folders.tags(name))) {
      const tag = readName.tag(each);
      if (tag) tags.push(tag);
    }
    return tags.sort();
  }

  /** False when there is no such tag. */
  deleteTag(name: RepositoryName, tag: Tag): Promise<boolean> {
    return this.#change(name, () => this.#storage.delete(layout.tag(name, tag)));
  }

  /** Every tag with what it points to; tags that vanish meanwhile are left out. */
  async tagRecords(name: RepositoryName): Promise<NamedTag[]> {
    const tags = await this.tags(name);
    const records: NamedTag[] = [];
    for (let start = 0; start < tags.length; start += batchSize) {
      const part = tags.slice(start, start + batchSize);
      const read = await Promise.all(part.map(async (tag) => ({ tag, record: await this.tag(name, tag) })));
      for (const { tag, record } of read) if (record) records.push({ tag, ...record });
    }
    return records;
  }

  /** Removes the manifest and every tag on it; false when there is no such manifest. */
  delete(name: RepositoryName, digest: Digest): Promise<boolean> {
    return this.#change(name, async () => {
      if (!(await this.#storage.stat(layout.manifest(name, digest)))) return false;
      for (const { tag, digest: target } of await this.tagRecords(name))
        if (target === digest) await this.#storage.delete(layout.tag(name, tag));
      return this.deleteUntagged(name, digest);
    });
  }

  /** For callers that hold the repository's lock and know that no tag is on it. */
  async deleteUntagged(name: RepositoryName, digest: Digest): Promise<boolean> {
    const stored = await this.get(name, digest);
    if (!stored) return false;
    await this.#storage.delete(layout.manifest(name, digest));
    const subject = stored.manifest().subject?.digest;
    if (subject) await this.#storage.delete(layout.referrer(name, { subject, digest }));
    return true;
  }

  /** Digests of the manifests that name this subject, in byte order. */
  async referrers(name: RepositoryName, subject: Digest): Promise<Digest[]> {
    const digests: Digest[] = [];
    for await (const each of this.#storage.listNames(folders.referrersOf(name, subject))) {
      const digest = readName.digest(each);
      if (digest) digests.push(digest);
    }
    return digests.sort();
  }

  /** Whether anything was ever pushed here and is still there. */
  async repositoryExists(name: RepositoryName): Promise<boolean> {
    for (const prefix of [folders.manifests(name), folders.links(name)])
      for await (const _each of this.#storage.listNames(prefix)) return true;
    return false;
  }

  /** Names of all repositories that have a tag, in byte order, after the given one, at most so many. */
  async repositories({ after = "", limit = Infinity } = {}): Promise<RepositoryName[]> {
    const names: RepositoryName[] = [];
    for await (const each of this.#storage.listNames(folders.allTags)) {
      const name = readName.repository(each);
      if (name && name > after) names.push(name);
    }
    const tagged: RepositoryName[] = [];
    for (const name of names.sort()) {
      if (tagged.length >= limit) break;
      for await (const _tag of this.#storage.listNames(folders.tags(name))) {
        tagged.push(name);
        break;
      }
    }
    return tagged;
  }
}

function readTag(record: Buffer, where: string): TagRecord {
  const parsed = tagWire.safeParse(JSON.parse(record.toString("utf8")));
  const digest = parsed.success ? tryDigest(parsed.data.digest) : undefined;
  if (!parsed.success || !digest) throw new Fault("internal", `the record of tag ${where} is damaged`);
  return { digest, pushedAt: parsed.data.pushedAt };
}
