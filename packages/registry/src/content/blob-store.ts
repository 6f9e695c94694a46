/**
 * Blobs as a repository sees them: content shared by all, membership per repository. A blob is there for a
 * repository when both its link and its content are.
 */
import { rm } from "node:fs/promises";
import { Fault } from "@cocoon/core";
import type { Digest, RepositoryName } from "../names.ts";
import type { DeletionGuard } from "../replicas/deletion-guard.ts";
import type { DamagedBlobs } from "../scrub/damage.ts";
import { layout } from "../storage/layout.ts";
import type { LocalFile, OpenObject, Storage } from "../storage/storage.ts";
import type { Quota, Room } from "./quota.ts";
import { settleAll } from "./settle-all.ts";
import type { SweepGate } from "./sweep-gate.ts";

export interface BlobStoreOptions {
  readonly storage: Storage;
  readonly gate: SweepGate;
  readonly quota: Quota;
  readonly guard: DeletionGuard;
  readonly damaged: DamagedBlobs;
  readonly leaseMs: number;
}

const nothing = new Uint8Array();

interface Commit {
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly write: () => Promise<void>;
}

export class BlobStore {
  readonly #options: BlobStoreOptions;

  constructor(options: BlobStoreOptions) {
    this.#options = options;
  }

  /**
   * The size; undefined when the repository does not hold it, or its content is known to be damaged and must be pushed
   * again. A client that gets the size may rely on the blob for a lease.
   */
  find(name: RepositoryName, digest: Digest): Promise<number | undefined> {
    return this.#use(digest, async () => {
      const [link, blob, isDamaged] = await Promise.all([
        this.#options.storage.stat(layout.link(name, digest)),
        this.#options.storage.stat(layout.blob(digest)),
        this.#options.damaged.has(digest),
      ]);
      if (!link || !blob || isDamaged) return undefined;
      await this.#renew(name, { digest, renewedAtMs: link.modifiedAtMs });
      return blob.sizeBytes;
    });
  }

  /** While the action runs neither this process nor another replica deletes the blob. It may run more than once. */
  #use<T>(digest: Digest, action: () => Promise<T>): Promise<T> {
    return this.#options.gate.use(digest, () => this.#options.guard.useBlob(digest, action));
  }

  /** For reading; the caller closes it. */
  async open(name: RepositoryName, digest: Digest): Promise<OpenObject | undefined> {
    const [link, blob] = await Promise.all([
      this.#options.storage.stat(layout.link(name, digest)),
      this.#options.storage.open(layout.blob(digest)),
    ]);
    if (link) return blob;
    await blob?.[Symbol.asyncDispose]();
    return undefined;
  }

  /** Content that is all in memory, its digest already checked. */
  async commitBytes(name: RepositoryName, digest: Digest, content: Uint8Array): Promise<void> {
    const write = () => this.#options.storage.put(layout.blob(digest), content);
    await this.#commit(name, { digest, sizeBytes: content.length, write });
  }

  /** A complete local file, its digest already checked; it is gone afterwards. */
  async commitFile(name: RepositoryName, digest: Digest, file: LocalFile): Promise<void> {
    const write = () => this.#options.storage.putFile(layout.blob(digest), file);
    try {
      await this.#commit(name, { digest, sizeBytes: file.sizeBytes, write });
    } finally {
      await rm(file.path, { force: true });
    }
  }

  /**
   * The link comes first: on shared storage it protects the blob from garbage collection in other replicas while the
   * content is written. Content that is there already is replaced: it may be damaged.
   */
  async #commit(name: RepositoryName, { digest, sizeBytes, write }: Commit): Promise<void> {
    await this.#options.gate.use(digest, async () => {
      const link = () => this.#options.storage.put(layout.link(name, digest), nothing);
      const store = async () => {
        await this.#options.guard.useBlob(digest, link);
        await write();
      };
      await this.#options.quota.reserve(name, { digest, sizeBytes }, () =>
        this.#options.guard.isNeeded ? store() : settleAll([write(), link()]),
      );
      await this.#options.damaged.clear(digest);
    });
  }

  /** Makes a blob of another repository a member of this one; false when it is not there. */
  mount(name: RepositoryName, digest: Digest, from: RepositoryName): Promise<boolean> {
    return this.#use(digest, async () => {
      const [source, blob] = await Promise.all([
        this.#options.storage.stat(layout.link(from, digest)),
        this.#options.storage.stat(layout.blob(digest)),
      ]);
      if (!source || !blob || (await this.#options.damaged.has(digest))) return false;
      await this.#link(name, digest, blob.sizeBytes);
      return true;
    });
  }

  /** Makes any blob that is stored a member; only for callers who may read all repositories. */
  mountFromAnywhere(name: RepositoryName, digest: Digest): Promise<boolean> {
    return this.#use(digest, async () => {
      const blob = await this.#options.storage.stat(layout.blob(digest));
      if (!blob || (await this.#options.damaged.has(digest))) return false;
      await this.#link(name, digest, blob.sizeBytes);
      return true;
    });
  }

  async #link(name: RepositoryName, digest: Digest, sizeBytes: number): Promise<void> {
    const link = () => this.#options.storage.put(layout.link(name, digest), nothing);
    await this.#options.quota.reserve(name, { digest, sizeBytes }, link);
  }

  /** Takes the blob out of the repository; its content stays for the others. False when it was not a member. */
  async unlink(name: RepositoryName, digest: Digest): Promise<boolean> {
    const removed = await this.#options.storage.delete(layout.link(name, digest));
    if (removed) this.#options.quota.countAgain(name);
    return removed;
  }

  findRoom(name: RepositoryName, digest?: Digest): Promise<Room> {
    return this.#options.quota.findRoom(name, digest);
  }

  /** Not every time: once in half a lease is enough to keep it alive, in half of the shortest lease on shared storage. */
  async #renew(
    name: RepositoryName,
    { digest, renewedAtMs }: { digest: Digest; renewedAtMs: number },
  ): Promise<void> {
    const leaseMs = this.#options.guard.isNeeded
      ? Math.min(this.#options.leaseMs, this.#options.guard.minLeaseMs)
      : this.#options.leaseMs;
    if (Date.now() - renewedAtMs < leaseMs / 2) return;
    if (!(await this.#options.storage.touch(layout.link(name, digest))))
      throw new Fault("unavailable", `${name}: ${digest} was being deleted; try again`);
  }
}
