/**
 * Garbage collection while requests are served. Per repository: tags past their retention, manifests that nothing reaches,
 * links to blobs that no manifest names; then content without any link. Nothing younger than its lease is touched, nor
 * anything that a request uses or used since the run began: in this process (see `content/sweep-gate.ts`) or in another
 * replica (see `replicas/deletion-guard.ts`). A repository with a manifest that cannot be read is left alone.
 */
import { Fault, getErrorMessage, type Logger } from "@cocoon/core";
import type { ManifestStore, ManifestStoreOptions } from "../content/manifest-store.ts";
import type { Sweep } from "../content/sweep-gate.ts";
import type { Digest, RepositoryName, Tag } from "../names.ts";
import type { MaintenanceLease } from "../replicas/maintenance-lease.ts";
import { folders, lastPart, layout, readName, type StorageKey } from "../storage/layout.ts";
import type { ObjectInfo } from "../storage/storage.ts";
import type { UploadSpool } from "../uploads/upload-spool.ts";
import { mark, type Marked, type PresentManifest } from "./mark.ts";
import { planRetention, type RetentionRule } from "./retention.ts";
import type { BlobStoreOptions } from "../content/blob-store.ts";

export interface CollectorOptions
  extends Omit<BlobStoreOptions, "damaged">, Pick<ManifestStoreOptions, "repositories" | "onChange"> {
  readonly manifests: ManifestStore;
  readonly uploads: UploadSpool;
  readonly lease: MaintenanceLease;
  readonly rules: readonly RetentionRule[];
  readonly untaggedMs: number;
  readonly log: Logger;
}

export interface GcReport {
  tags: number;
  manifests: number;
  links: number;
  blobs: number;
  bytes: number;
  uploads: number;
  /** Repositories left alone because something in them could not be read. */
  skipped: number;
}

export interface GcRun {
  readonly signal: AbortSignal;
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
  readonly signal: AbortSignal;
}

interface RepositoryPlan {
  readonly tags: readonly Tag[];
  readonly marked: Marked;
}

interface Candidate extends ObjectInfo {
  readonly digest: Digest;
}

const batchSize = 1_000;

export class GarbageCollector {
  readonly #options: CollectorOptions;
  #running = false;

  constructor(options: CollectorOptions) {
    this.#options = options;
  }

  /** One run at a time, in all replicas; a second one is refused with `conflict`. */
  async run({ signal: stop, leaseMs, untaggedMs }: GcRun): Promise<GcReport> {
    if (this.#running) throw new Fault("conflict", "garbage collection is already running");
    this.#running = true;
    const { gate, storage, uploads, guard, lease } = this.#options;
    const report: GcReport = { tags: 0, manifests: 0, links: 0, blobs: 0, bytes: 0, uploads: 0, skipped: 0 };
    try {
      report.uploads = (await uploads.expire()) + (await storage.sweepUnfinished(unfinishedMs));
      await using held = await lease.acquire();
      using sweep = gate.beginSweep();
      const signal = AbortSignal.any([stop, held.signal]);
      await guard.clear();
      const pass: Pass = {
        nowMs: await storage.now(),
        leaseMs: Math.max(leaseMs ?? this.#options.leaseMs, guard.minLeaseMs),
        untaggedMs: untaggedMs ?? this.#options.untaggedMs,
        sweep,
        report,
        signal,
      };
      for (const name of await this.#allRepositories()) {
        signal.throwIfAborted();
        await this.#collectRepository(name, pass);
      }
      await this.#collectContent(pass);
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
      const marked = await this.#options.repositories.run(name, () => this.#collectManifests(name, pass));
      await this.#collectLinks(name, { marked, pass });
    } catch (error) {
      pass.report.skipped += 1;
      this.#options.log.warn(
        { repo: name, error: getErrorMessage(error) },
        "repository left alone by garbage collection",
      );
    }
  }

  /** Under the repository's lock: no manifest comes or goes meanwhile in this process, blobs do. */
  async #collectManifests(name: RepositoryName, pass: Pass): Promise<Marked> {
    const { guard } = this.#options;
    const plan = await this.#plan(name, pass);
    if (plan.tags.length === 0 && plan.marked.dead.length === 0) {
      await this.#collectIndexes(name, plan.marked);
      return plan.marked;
    }
    return guard.condemn([layout.condemnedRepository(name)], async () => {
      pass.signal.throwIfAborted();
      // Another replica may have pushed since: only what is still to go goes.
      const again = guard.isNeeded ? await this.#plan(name, pass) : plan;
      await this.#deleteManifests(name, { plan: again, report: pass.report });
      await this.#collectIndexes(name, again.marked);
      return again.marked;
    });
  }

  async #deleteManifests(
    name: RepositoryName,
    { plan, report }: { plan: RepositoryPlan; report: GcReport },
  ): Promise<void> {
    const { manifests, storage } = this.#options;
    for (const tag of plan.tags) {
      await storage.delete(layout.tag(name, tag));
      this.#options.onChange(name, [tag]);
      report.tags += 1;
    }
    for (const digest of plan.marked.dead) {
      await manifests.deleteUntagged(name, digest);
      report.manifests += 1;
    }
  }

  /** Referrers of manifests that are gone, and index entries of tags that were moved or deleted. */
  async #collectIndexes(name: RepositoryName, { alive }: Marked): Promise<void> {
    const { storage, manifests } = this.#options;
    for await (const { key } of storage.list(folders.referrers(name))) {
      const digest = readName.digest(lastPart(key));
      const isGone = digest && !alive.has(digest) && !(await storage.stat(layout.manifest(name, digest)));
      if (!digest || isGone) await storage.delete(key);
    }
    for await (const { key } of storage.list(folders.tagged(name))) {
      const [, , folder = "", text = ""] = key.split("/");
      const [digest, tag] = [readName.digest(folder), readName.tag(text)];
      const current = tag && (await manifests.tag(name, tag));
      if (!digest || current?.digest !== digest) await this.#removeIndexEntry(key, { name, digest, tag });
    }
  }

  /** Between this check and the deletion a push may set the tag to that digest again; then the entry is written again. */
  async #removeIndexEntry(
    key: StorageKey,
    { name, digest, tag }: { name: RepositoryName; digest: Digest | undefined; tag: Tag | undefined },
  ): Promise<void> {
    const { storage, manifests } = this.#options;
    await storage.delete(key);
    if (!digest || !tag) return;
    if ((await manifests.tag(name, tag))?.digest === digest) await storage.put(key, new Uint8Array());
  }

  /** What to delete: tags past their retention or without a manifest, then manifests that nothing reaches. */
  async #plan(name: RepositoryName, pass: Pass): Promise<RepositoryPlan> {
    const { manifests, storage, rules } = this.#options;
    const records = await manifests.tagRecords(name);
    const dated = records.map(({ tag, pushedAt }) => ({ tag, pushedAtMs: Date.parse(pushedAt) }));
    const expired = new Set(planRetention(rules, { name, tags: dated, nowMs: pass.nowMs }));
    const tags: Tag[] = [];
    const tagged = new Set<Digest>();
    for (const { tag, digest } of records) {
      const dangling = !(await storage.stat(layout.manifest(name, digest)));
      if (expired.has(tag) || dangling) tags.push(tag);
      else tagged.add(digest);
    }
    return { tags, marked: mark(await this.#presentManifests(name, pass), tagged) };
  }

  async #presentManifests(name: RepositoryName, { nowMs, untaggedMs }: Pass): Promise<PresentManifest[]> {
    const { manifests, storage } = this.#options;
    const present: PresentManifest[] = [];
    for await (const { key, modifiedAtMs } of storage.list(folders.manifests(name))) {
      const digest = readName.digest(lastPart(key));
      const stored = digest && (await manifests.get(name, digest));
      if (!digest || !stored) throw new Fault("internal", `${key} is not a manifest`);
      const { config, layers, manifests: children, subject } = await stored.manifest();
      const recent = nowMs - modifiedAtMs < untaggedMs;
      // Only what marking needs: the rest of large manifests would fill the memory.
      const manifest = {
        config: config && toReference(config),
        layers: layers.map(toReference),
        manifests: children.map(toReference),
        subject: subject && toReference(subject),
      };
      present.push({ digest, recent, manifest });
    }
    return present;
  }

  async #collectLinks(name: RepositoryName, { marked, pass }: { marked: Marked; pass: Pass }): Promise<void> {
    const { storage, quota } = this.#options;
    const dead: Candidate[] = [];
    for await (const { key, sizeBytes, modifiedAtMs } of storage.list(folders.links(name))) {
      const digest = readName.digest(lastPart(key));
      if (!digest || marked.blobs.has(digest) || pass.nowMs - modifiedAtMs < pass.leaseMs) continue;
      dead.push({ digest, key, sizeBytes, modifiedAtMs });
    }
    const removed = await this.#removeAll(dead, { pass, isStillDead: (each) => this.#isUnchanged(each) });
    pass.report.links += removed.length;
    if (removed.length > 0) quota.countAgain(name);
  }

  async #collectContent(pass: Pass): Promise<void> {
    const { storage } = this.#options;
    const linked = await this.#linkedDigests();
    const dead: Candidate[] = [];
    for (const prefix of folders.blobs)
      for await (const { key, sizeBytes, modifiedAtMs } of storage.list(prefix)) {
        pass.signal.throwIfAborted();
        const digest = readName.digest(key.slice("blobs/".length).replace("/", "-"));
        if (!digest || linked.has(digest) || pass.nowMs - modifiedAtMs < pass.leaseMs) continue;
        dead.push({ digest, key, sizeBytes, modifiedAtMs });
      }
    let linkedNow: Promise<Set<Digest>> | undefined;
    const isStillDead = async (each: Candidate) => {
      linkedNow ??= this.#linkedDigests();
      return (await this.#isUnchanged(each)) && !(await linkedNow).has(each.digest);
    };
    for (let start = 0; start < dead.length; start += batchSize) {
      linkedNow = undefined; // links are read again for each batch, after its settle time
      const removed = await this.#removeAll(dead.slice(start, start + batchSize), { pass, isStillDead });
      pass.report.blobs += removed.length;
      for (const { sizeBytes } of removed) pass.report.bytes += sizeBytes;
    }
  }

  /** Marks, waits and checks again where other replicas could have used a candidate meanwhile; returns what is gone. */
  async #removeAll(
    candidates: readonly Candidate[],
    { pass, isStillDead }: { pass: Pass; isStillDead: (candidate: Candidate) => Promise<boolean> },
  ): Promise<Candidate[]> {
    const { guard, storage } = this.#options;
    const removed: Candidate[] = [];
    if (candidates.length === 0) return removed;
    const marks = candidates.map(({ digest }) => layout.condemnedBlob(digest));
    await guard.condemn(marks, async () => {
      for (const candidate of candidates) {
        pass.signal.throwIfAborted();
        if (guard.isNeeded && !(await isStillDead(candidate))) continue;
        const remove = async () => void (await storage.delete(candidate.key));
        if (await pass.sweep.tryRemove(candidate.digest, remove)) removed.push(candidate);
      }
    });
    return removed;
  }

  /** Whether it was neither renewed nor replaced nor deleted. S3 shows full seconds for an object, more in a list. */
  async #isUnchanged({ key, modifiedAtMs }: Candidate): Promise<boolean> {
    const now = await this.#options.storage.stat(key);
    return now !== undefined && Math.floor(now.modifiedAtMs / 1_000) === Math.floor(modifiedAtMs / 1_000);
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
}

function toReference({ digest }: { readonly digest: Digest }): { readonly digest: Digest } {
  return { digest };
}
