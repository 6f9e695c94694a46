/**
 * What is in the registry, for the control API: a view over the storage, built by a scan when it is first asked for
 * and kept in memory. A change in a repository makes that repository be looked at again; losing the view costs a scan.
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

export class Overview {
  readonly #manifests: ManifestStore;
  readonly #now: () => number;
  readonly #views = new Map<RepositoryName, Promise<RepositoryView | undefined>>();
  /** Whether the names of all repositories were read once. */
  #complete: Promise<void> | undefined;

  constructor(manifests: ManifestStore, now: () => number = Date.now) {
    this.#manifests = manifests;
    this.#now = now;
  }

  /** Something changed there: look again when next asked. */
  invalidate(name: RepositoryName): void {
    this.#views.delete(name);
    if (this.#complete) this.#views.set(name, this.#scanQuietly(name));
  }

  /** Forgets everything and scans anew. */
  async rescan(): Promise<void> {
    this.#views.clear();
    this.#complete = undefined;
    await this.all();
  }

  /** Every repository that has a tag, in no particular order. */
  async all(): Promise<RepositoryView[]> {
    this.#complete ??= this.#scanAll();
    try {
      await this.#complete;
    } catch (error) {
      this.#complete = undefined;
      throw error;
    }
    const views = await Promise.all([...this.#views.keys()].map((name) => this.one(name)));
    return views.filter((view) => view !== undefined);
  }

  /** Undefined when the repository has no tag. */
  one(name: RepositoryName): Promise<RepositoryView | undefined> {
    let view = this.#views.get(name);
    if (!view) {
      view = this.#scanQuietly(name);
      this.#views.set(name, view);
    }
    return view;
  }

  async #scanAll(): Promise<void> {
    for (const name of await this.#manifests.repositories()) await this.one(name);
  }

  /** A failed scan fails who asked, and is not remembered. */
  #scanQuietly(name: RepositoryName): Promise<RepositoryView | undefined> {
    const view = this.#scan(name);
    view.catch(() => this.#views.delete(name));
    return view;
  }

  async #scan(name: RepositoryName): Promise<RepositoryView | undefined> {
    const descriptions = new Map<Digest, Promise<Description | undefined>>();
    const tags: TagView[] = [];
    for (const record of await this.#manifests.tagRecords(name)) {
      let description = descriptions.get(record.digest);
      if (!description) {
        description = this.#describe(name, record.digest);
        descriptions.set(record.digest, description);
      }
      const known = await description;
      if (known) tags.push(this.#tagView(name, record, known));
    }
    tags.sort((a, b) => (a.pushedAt < b.pushedAt ? 1 : a.pushedAt > b.pushedAt ? -1 : 0));
    return tags.length === 0 ? undefined : { id: stableId(name), name, tags };
  }

  async #describe(name: RepositoryName, digest: Digest): Promise<Description | undefined> {
    const stored = await this.#manifests.get(name, digest);
    return stored && describe(name, stored.manifest(), this.#manifests);
  }

  #tagView(name: RepositoryName, { tag, digest, pushedAt }: NamedTag, description: Description): TagView {
    return {
      ...description,
      id: stableId(`${name}:${tag}`),
      tag,
      digest,
      pushedAt: description.created ?? pushedAt,
      syncedAt: new Date(this.#now()).toISOString(),
    };
  }
}

/** A number for clients that expect one: the same for the same name, in every run. */
function stableId(name: string): number {
  return Number.parseInt(hash("sha256", name, "hex").slice(0, 12), 16);
}
