/**
 * Garbage collection while everybody works. Per repository: tags past their retention, manifests nobody can reach,
 * links to blobs that no manifest names; then content without any link. Nothing younger than its lease is touched,
 * nor anything that somebody uses or used since the run began (see `content/sweep-gate.ts`). A repository with a
 * manifest that cannot be read is left alone: not knowing is no reason to delete.
 */
import { Fault, messageOf, type Logger } from "@cocoon/core";
import type { KeyedLock } from "../content/keyed-lock.ts";
import type { ManifestStore } from "../content/manifest-store.ts";
import type { Quota } from "../content/quota.ts";
import type { Sweep, SweepGate } from "../content/sweep-gate.ts";
import type { Digest, RepositoryName } from "../names.ts";
import { folders, lastPart, layout, readName, type StorageKey } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import type { UploadSpool } from "../uploads/upload-spool.ts";
import { mark, type Marked, type PresentManifest } from "./mark.ts";
import { planRetention, type RetentionRule } from "./retention.ts";

export interface CollectorOptions {
  readonly storage: Storage;
  readonly manifests: ManifestStore;
  readonly uploads: UploadSpool;
  readonly gate: SweepGate;
  readonly quota: Quota;
  readonly repositories: KeyedLock<RepositoryName>;
  readonly rules: readonly RetentionRule[];
  /** How long a blob that no manifest names, or content without a link, is kept. */
  readonly leaseMs: number;
  /** How long a manifest that no tag reaches is kept. */
  readonly untaggedMs: number;
  /** Called when a tag or manifest of the repository may have gone. */
  readonly onChange: (name: RepositoryName) => void;
  readonly log: Logger;
}

export interface GcReport {
  tags: number;
  manifests: number;
  /** Memberships of blobs in repositories. */
  links: number;
  blobs: number;
  bytes: number;
  uploads: number;
  /** Repositories left alone because something in them could not be read. */
  skipped: number;
}

export interface GcRun {
  readonly signal: AbortSignal;
  /** Instead of the configured ones. */
  readonly leaseMs?: number | undefined;
  readonly untaggedMs?: number | undefined;
}

/** No single write takes so long and still ends well. */
const unfinishedMs = 24 * 3_600_000;

interface Pass {
  readonly nowMs: number;
  readonly leaseMs: number;
  readonly untaggedMs: number;
  readonly sweep: Sweep;
  readonly report: GcReport;
}

export class GarbageCollector {
  readonly #options: CollectorOptions;
  #running = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  /** One run at a time; a second one is refused with `conflict`. */
  async run({ signal, leaseMs, untaggedMs }: GcRun): Promise<GcReport> {
    if (this.#running) throw new Fault("conflict", "garbage collection is already running");
    this.#running = true;
    const { gate, storage, uploads } = this.#options;
    using sweep = gate.beginSweep();
    const report: GcReport = { tags: 0, manifests: 0, links: 0, blobs: 0, bytes: 0, uploads: 0, skipped: 0 };
    try {
      const pass: Pass = {
        nowMs: await storage.now(),
        leaseMs: leaseMs ?? this.#options.leaseMs,
        untaggedMs: untaggedMs ?? this.#options.untaggedMs,
        sweep,
        report,
      };
      report.uploads = (await uploads.expire()) + (await storage.sweepUnfinished(unfinishedMs));
      for (const name of await this.#allRepositories()) {
        signal.throwIfAborted();
        await this.#collectRepository(name, pass);
      }
      await this.#collectContent(pass, signal);
      return report;
    } finally {
      this.#running = false;
    }
  }

  async #allRepositories(): Promise<RepositoryName[]> {
    const names = new Set<RepositoryName>();
    for (const prefix of [folders.allManifests, folders.allLinks, folders.allTags, folders.allReferrers])
      for await (const each of this.#options.storage.listNames(prefix)) {
        const name = readName.repository(each);
        if (name) names.add(name);
      }
    return [...names].sort();
  }

  async #collectRepository(name: RepositoryName, pass: Pass): Promise<void> {
    try {
      const { tags, manifests } = pass.report;
      const marked = await this.#options.repositories.run(name, () => this.#collectManifests(name, pass));
      if (pass.report.tags !== tags || pass.report.manifests !== manifests) this.#options.onChange(name);
      await this.#collectLinks(name, { marked, pass });
    } catch (error) {
      pass.report.skipped += 1;
      this.#options.log.warn(
        { repo: name, error: messageOf(error) },
        "repository left alone by garbage collection",
      );
    }
  }

  /** Under the repository's lock: no manifest comes or goes meanwhile, blobs do. */
  async #collectManifests(name: RepositoryName, pass: Pass): Promise<Marked> {
    const { manifests, storage } = this.#options;
    const tagged = await this.#collectTags(name, pass);
    const present = await this.#presentManifests(name, pass);
    const marked = mark(present, tagged);
    for (const digest of marked.dead) {
      await manifests.deleteUntagged(name, digest);
      pass.report.manifests += 1;
    }
    for await (const { key } of storage.list(folders.referrers(name))) {
      const digest = readName.digest(lastPart(key));
      if (!digest || !marked.alive.has(digest)) await storage.delete(key);
    }
    return marked;
  }

  /** Removes what retention says, and tags without a manifest; returns what the others point to. */
  async #collectTags(name: RepositoryName, { nowMs, report }: Pass): Promise<Set<Digest>> {
    const { manifests, storage, rules } = this.#options;
    const records = await manifests.tagRecords(name);
    const dated = records.map(({ tag, pushedAt }) => ({ tag, pushedAtMs: Date.parse(pushedAt) }));
    const expired = new Set(planRetention(rules, { name, tags: dated, nowMs }));
    const tagged = new Set<Digest>();
    for (const { tag, digest } of records) {
      const dangling = !(await storage.stat(layout.manifest(name, digest)));
      if (expired.has(tag) || dangling) {
        await storage.delete(layout.tag(name, tag));
        report.tags += 1;
      } else tagged.add(digest);
    }
    return tagged;
  }

  async #presentManifests(name: RepositoryName, { nowMs, untaggedMs }: Pass): Promise<PresentManifest[]> {
    const { manifests, storage } = this.#options;
    const present: PresentManifest[] = [];
    for await (const { key, modifiedAtMs } of storage.list(folders.manifests(name))) {
      const digest = readName.digest(lastPart(key));
      const stored = digest && (await manifests.get(name, digest));
      if (!digest || !stored) throw new Fault("internal", `${key} is not a manifest`);
      const { config, layers, manifests: children, subject } = stored.manifest();
      const recent = nowMs - modifiedAtMs < untaggedMs;
      present.push({ digest, recent, manifest: { config, layers, manifests: children, subject } });
    }
    return present;
  }

  async #collectLinks(name: RepositoryName, { marked, pass }: { marked: Marked; pass: Pass }): Promise<void> {
    const { storage, quota } = this.#options;
    for await (const { key, modifiedAtMs } of storage.list(folders.links(name))) {
      const digest = readName.digest(lastPart(key));
      if (!digest || marked.blobs.has(digest) || pass.nowMs - modifiedAtMs < pass.leaseMs) continue;
      const removed = await pass.sweep.tryRemove(digest, () => this.#remove(key));
      if (!removed) continue;
      pass.report.links += 1;
      quota.countAgain(name);
    }
  }

  async #collectContent(pass: Pass, signal: AbortSignal): Promise<void> {
    const { storage } = this.#options;
    const linked = await this.#linkedDigests();
    for (const prefix of folders.blobs)
      for await (const { key, sizeBytes, modifiedAtMs } of storage.list(prefix)) {
        signal.throwIfAborted();
        const digest = readName.digest(key.slice("blobs/".length).replace("/", "-"));
        if (!digest || linked.has(digest) || pass.nowMs - modifiedAtMs < pass.leaseMs) continue;
        if (!(await pass.sweep.tryRemove(digest, () => this.#remove(key)))) continue;
        pass.report.blobs += 1;
        pass.report.bytes += sizeBytes;
      }
  }

  /** After the links were swept; those made since then are of digests that count as used. */
  async #linkedDigests(): Promise<Set<Digest>> {
    const linked = new Set<Digest>();
    for await (const { key } of this.#options.storage.list(folders.allLinks)) {
      const digest = readName.digest(lastPart(key));
      if (digest) linked.add(digest);
    }
    return linked;
  }

  async #remove(key: StorageKey): Promise<void> {
    await this.#options.storage.delete(key);
  }
}
