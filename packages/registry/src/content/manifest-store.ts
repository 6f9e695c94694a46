/**
 * Manifests, tags and referrers of every repository. Changes of one repository happen one after the other; reads
 * do not wait. The order of writes is that of `storage/layout.ts`: a reader, or a crash, between any two of them
 * finds either the old state or the new one, and no tag without its manifest.
 */
import * as z from "zod";
import { Fault } from "@cocoon/core";
import { tryDigest, type Digest, type RepositoryName, type Tag } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { DeletionGuard } from "../replicas/deletion-guard.ts";
import { folders, layout, readName } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import type { BlobStore } from "./blob-store.ts";
import type { KeyedLock } from "./keyed-lock.ts";
import { neededBlobs, referrerDescriptor, type Manifest, type ReferrerDescriptor } from "./manifest.ts";
import type { ManifestReader } from "./manifest-reader.ts";
import { settleAll } from "./settle-all.ts";
import { readRecord, writeRecord, type StoredManifest } from "./manifest-record.ts";
import type { SweepGate } from "./sweep-gate.ts";

export interface ManifestStoreOptions {
  readonly storage: Storage;
  readonly blobs: BlobStore;
  readonly gate: SweepGate;
  readonly repositories: KeyedLock<RepositoryName>;
  readonly reader: ManifestReader;
  readonly guard: DeletionGuard;
  readonly onChange: (name: RepositoryName, tags: readonly Tag[]) => void;
}

interface NewManifest {
  readonly digest: Digest;
  readonly bytes: Uint8Array;
  readonly manifest: Manifest;
  readonly tags: readonly Tag[];
}

interface RepositoryFilter {
  readonly after?: string;
  readonly limit?: number;
  readonly isVisible?: (name: RepositoryName) => boolean;
}

interface TagRecord {
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
  readonly reader: ManifestReader;
  readonly #storage: Storage;
  readonly #options: ManifestStoreOptions;

  constructor(options: ManifestStoreOptions) {
    this.reader = options.reader;
    this.#storage = options.storage;
    this.#options = options;
  }

  /** Stores a manifest whose blobs are all here, and moves the tags to it. May be repeated. */
  async put(name: RepositoryName, given: NewManifest): Promise<void> {
    const needed = neededBlobs(given.manifest);
    await this.#options.gate.useAll(needed, async () => {
      await this.#assertBlobs(name, needed);
      await this.#change(name, given.tags, () =>
        this.#options.guard.useRepository(name, () => this.#write(name, given)),
      );
    });
  }

  /** One change of a repository at a time; reported even when it failed, since a part of it may have happened. */
  #change<T>(name: RepositoryName, tags: readonly Tag[], action: () => Promise<T>): Promise<T> {
    return this.#options.repositories.run(name, async () => {
      try {
        return await action();
      } finally {
        this.#options.onChange(name, tags);
      }
    });
  }

  async #write(name: RepositoryName, { digest, bytes, manifest, tags }: NewManifest): Promise<void> {
    const pushedAt = new Date().toISOString();
    const subject = manifest.subject?.digest;
    const descriptor = referrerDescriptor(manifest, { digest, size: bytes.length });
    if (subject)
      await this.#storage.put(
        layout.referrer(name, { subject, digest }),
        Buffer.from(JSON.stringify(descriptor)),
      );
    const record = writeRecord({ mediaType: manifest.mediaType, pushedAt }, bytes);
    await settleAll([
      this.#storage.put(layout.manifest(name, digest), record),
      ...tags.map((tag) => this.#storage.put(layout.tagged(name, { digest, tag }), new Uint8Array())),
    ]);
    const tagRecord: TagRecord = { digest, pushedAt };
    for (const tag of tags)
      await this.#storage.put(layout.tag(name, tag), Buffer.from(`${JSON.stringify(tagRecord)}\n`));
  }

  async #assertBlobs(name: RepositoryName, needed: readonly Digest[]): Promise<void> {
    for (let start = 0; start < needed.length; start += batchSize) {
      const part = needed.slice(start, start + batchSize);
      const sizes = await Promise.all(part.map((digest) => this.#options.blobs.find(name, digest)));
      const missing = part.filter((_digest, index) => sizes[index] === undefined);
      if (missing.length > 0)
        throw ociFault("MANIFEST_BLOB_UNKNOWN", `${name} does not hold ${missing.join(", ")}; push it first`);
    }
  }

  async get(name: RepositoryName, digest: Digest): Promise<StoredManifest | undefined> {
    const record = await this.#storage.get(layout.manifest(name, digest));
    return record && readRecord(digest, record, this.reader);
  }

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

  /** At most `limit` tags after the given one, in byte order. */
  async tagPage(name: RepositoryName, page: { after: string; limit: number }): Promise<Tag[]> {
    const names = await this.#storage.listPage(folders.tags(name), page);
    return names.map(readName.tag).filter((tag) => tag !== undefined);
  }

  /** False when there is no such tag. */
  deleteTag(name: RepositoryName, tag: Tag): Promise<boolean> {
    return this.#change(name, [tag], () => this.#storage.delete(layout.tag(name, tag)));
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
  async delete(name: RepositoryName, digest: Digest): Promise<boolean> {
    const tags = await this.#findTags(name, digest);
    return this.#change(name, tags, async () => {
      if (!(await this.#storage.stat(layout.manifest(name, digest)))) return false;
      for (const tag of await this.#findTags(name, digest)) await this.#storage.delete(layout.tag(name, tag));
      return this.deleteUntagged(name, digest);
    });
  }

  async #findTags(name: RepositoryName, digest: Digest): Promise<Tag[]> {
    const tags: Tag[] = [];
    for await (const each of this.#storage.listNames(folders.taggedAs(name, digest))) {
      const tag = readName.tag(each);
      if (tag && (await this.tag(name, tag))?.digest === digest) tags.push(tag);
    }
    return tags;
  }

  /** For callers that hold the repository's lock and know that no tag is on it. */
  async deleteUntagged(name: RepositoryName, digest: Digest): Promise<boolean> {
    const stored = await this.get(name, digest);
    if (!stored) return false;
    await this.#storage.delete(layout.manifest(name, digest));
    const subject = await stored.manifest().then(
      (manifest) => manifest.subject?.digest,
      () => undefined, // garbage collection removes the referrer of a manifest that cannot be parsed
    );
    if (subject) await this.#storage.delete(layout.referrer(name, { subject, digest }));
    for await (const { key } of this.#storage.list(folders.taggedAs(name, digest)))
      await this.#storage.delete(key);
    return true;
  }

  /** Digests of the manifests that name this subject, in byte order: at most `limit` after the given one. */
  async referrers(
    name: RepositoryName,
    subject: Digest,
    { after = "", limit = Infinity } = {},
  ): Promise<Digest[]> {
    const page = { after: after.replace(":", "-"), limit: Math.min(limit, 1e9) };
    const names = await this.#storage.listPage(folders.referrersOf(name, subject), page);
    return names.map(readName.digest).filter((digest) => digest !== undefined);
  }

  /** What the referrers API says about a manifest; undefined when it is gone. Only reads the manifest if it must. */
  async describeReferrer(
    name: RepositoryName,
    { subject, digest }: { readonly subject: Digest; readonly digest: Digest },
  ): Promise<ReferrerDescriptor | undefined> {
    const [known, manifest] = await Promise.all([
      this.#storage.get(layout.referrer(name, { subject, digest })),
      this.#storage.stat(layout.manifest(name, digest)),
    ]);
    if (!manifest) return undefined;
    if (known && known.length > 0) return JSON.parse(known.toString("utf8")) as ReferrerDescriptor;
    const stored = await this.get(name, digest); // listed by a fallback tag, or pushed by an older version
    return stored && referrerDescriptor(await stored.manifest(), { digest, size: stored.bytes.length });
  }

  /** Whether anything was ever pushed here and is still there. */
  async repositoryExists(name: RepositoryName): Promise<boolean> {
    for (const prefix of [folders.manifests(name), folders.links(name)])
      if ((await this.#storage.listPage(prefix, { after: "", limit: 1 })).length > 0) return true;
    return false;
  }

  /** Names of repositories that have a tag and are visible, in byte order: at most `limit` after the given one. */
  async repositories({
    after = "",
    limit = Infinity,
    isVisible = () => true,
  }: RepositoryFilter = {}): Promise<RepositoryName[]> {
    const names: RepositoryName[] = [];
    for await (const each of this.#storage.listNames(folders.allTags)) {
      const name = readName.repository(each);
      if (name && name > after && isVisible(name)) names.push(name);
    }
    const tagged: RepositoryName[] = [];
    for (const name of names.sort()) {
      if (tagged.length >= limit) break;
      if ((await this.tagPage(name, { after: "", limit: 1 })).length > 0) tagged.push(name);
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
