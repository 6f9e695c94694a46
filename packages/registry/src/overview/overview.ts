/**
 * What is in the registry, for the control API: a view over the storage, built by a scan when it is first requested and
 * kept in memory. A push or deletion makes only its own tags be read again. On storage that other processes write to, the
 * view is built again after some minutes.
 */
import { hash } from "node:crypto";
import type { ManifestStore, NamedTag } from "../content/manifest-store.ts";
import type { Digest, RepositoryName, Tag } from "../names.ts";
import { describe, type Description } from "./describe.ts";

export interface TagView extends Description {
  readonly id: number;
  readonly tag: Tag;
  readonly digest: Digest;
  readonly pushedAt: string;
  readonly syncedAt: string;
}

export interface RepositoryView {
  readonly id: number;
  readonly name: RepositoryName;
  /** Newest push first; never empty. */
  readonly tags: readonly TagView[];
}

interface Repository {
  readonly tags: Map<Tag, TagView>;
  readonly changed: Set<Tag>;
  /** Undefined while it must be built again. */
  view: RepositoryView | undefined;
}

export class Overview {
  readonly #manifests: ManifestStore;
  readonly #maxAgeMs: number;
  readonly #repositories = new Map<RepositoryName, Promise<Repository>>();
  #scanned: Promise<void> | undefined;
  #scannedAtMs = 0;

  /** A view is used for at most `maxAgeMs`, although other processes may have changed the storage. */
  constructor(manifests: ManifestStore, maxAgeMs: number) {
    this.#manifests = manifests;
    this.#maxAgeMs = maxAgeMs;
  }

  invalidate(name: RepositoryName, tags: readonly Tag[]): void {
    const known = this.#repositories.get(name);
    if (known) void known.then(({ changed }) => tags.forEach((tag) => changed.add(tag)));
    else if (this.#scanned) this.#repositories.set(name, this.#load(name));
  }

  async rescan(): Promise<void> {
    this.#repositories.clear();
    this.#scanned = undefined;
    await this.all();
  }

  /** Every repository that has a tag, in no particular order. */
  async all(): Promise<RepositoryView[]> {
    this.#forgetWhenOld();
    this.#scanned ??= this.#scan();
    try {
      await this.#scanned;
    } catch (error) {
      this.#scanned = undefined;
      throw error;
    }
    const views = await Promise.all([...this.#repositories.keys()].map((name) => this.#view(name)));
    return views.filter((view) => view !== undefined);
  }

  /** Undefined when the repository has no tag. */
  one(name: RepositoryName): Promise<RepositoryView | undefined> {
    this.#forgetWhenOld();
    return this.#view(name);
  }

  #forgetWhenOld(): void {
    if (Date.now() - this.#scannedAtMs < this.#maxAgeMs) return;
    this.#scannedAtMs = Date.now();
    this.#repositories.clear();
    this.#scanned = undefined;
  }

  async #scan(): Promise<void> {
    for (const name of await this.#manifests.repositories()) await this.#view(name);
  }

  async #view(name: RepositoryName): Promise<RepositoryView | undefined> {
    let loading = this.#repositories.get(name);
    if (!loading) {
      loading = this.#load(name);
      this.#repositories.set(name, loading);
    }
    const repository = await loading;
    await this.#refresh(name, repository);
    return (repository.view ??= buildView(name, repository));
  }

  /** A failed load fails its caller and is not kept. */
  #load(name: RepositoryName): Promise<Repository> {
    const loading = this.#read(name);
    loading.catch(() => this.#repositories.delete(name));
    return loading;
  }

  async #read(name: RepositoryName): Promise<Repository> {
    const repository: Repository = { tags: new Map(), changed: new Set(), view: undefined };
    const descriptions = new Map<Digest, Promise<Description | undefined>>();
    for (const record of await this.#manifests.tagRecords(name)) {
      const description = descriptions.get(record.digest) ?? this.#describe(name, record.digest);
      descriptions.set(record.digest, description);
      const known = await description;
      if (known) repository.tags.set(record.tag, this.#tagView(name, record, known));
    }
    return repository;
  }

  async #refresh(name: RepositoryName, repository: Repository): Promise<void> {
    const { tags, changed } = repository;
    for (const tag of changed) {
      changed.delete(tag); // a change from now on is read again
      const record = await this.#manifests.tag(name, tag);
      const description = record && (await this.#describe(name, record.digest));
      if (record && description) tags.set(tag, this.#tagView(name, { tag, ...record }, description));
      else tags.delete(tag);
      repository.view = undefined;
    }
  }

  async #describe(name: RepositoryName, digest: Digest): Promise<Description | undefined> {
    const stored = await this.#manifests.get(name, digest);
    return stored && describe(name, await stored.manifest(), this.#manifests);
  }

  #tagView(name: RepositoryName, { tag, digest, pushedAt }: NamedTag, description: Description): TagView {
    return {
      ...description,
      id: computeStableId(`${name}:${tag}`),
      tag,
      digest,
      pushedAt: description.created ?? pushedAt,
      syncedAt: new Date(Date.now()).toISOString(),
    };
  }
}

function buildView(name: RepositoryName, { tags }: Repository): RepositoryView | undefined {
  if (tags.size === 0) return undefined;
  const sorted = [...tags.values()].sort((a, b) =>
    a.pushedAt < b.pushedAt ? 1 : a.pushedAt > b.pushedAt ? -1 : 0,
  );
  return { id: computeStableId(name), name, tags: sorted };
}

/** A number for clients that expect one: the same for the same name, in every run. */
function computeStableId(name: string): number {
  return Number.parseInt(hash("sha256", name, "hex").slice(0, 12), 16);
}
