/**
 * Blobs as a repository sees them: content shared by all, membership per repository. A blob is there for a
 * repository when both its link and its content are.
 */
import { rm } from "node:fs/promises";
import { Fault } from "@cocoon/core";
import type { Digest, RepositoryName } from "../names.ts";
import { layout } from "../storage/layout.ts";
import type { LocalFile, OpenObject, Storage } from "../storage/storage.ts";
import type { Quota } from "./quota.ts";
import type { SweepGate } from "./sweep-gate.ts";

export interface BlobStoreOptions {
  readonly storage: Storage;
  readonly gate: SweepGate;
  readonly quota: Quota;
  /** How long a blob that no manifest names is kept after it was last pushed, mounted or found. */
  readonly leaseMs: number;
  readonly now?: () => number;
}

const nothing = new Uint8Array();

interface Commit {
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly write: () => Promise<void>;
}

export class BlobStore {
  readonly #storage: Storage;
  readonly #gate: SweepGate;
  readonly #quota: Quota;
  readonly #leaseMs: number;
  readonly #now: () => number;

  constructor({ storage, gate, quota, leaseMs, now = Date.now }: BlobStoreOptions) {
    this.#storage = storage;
    this.#gate = gate;
    this.#quota = quota;
    this.#leaseMs = leaseMs;
    this.#now = now;
  }

  /** The size; undefined when the repository does not hold it. A client that is told yes may rely on it for a lease. */
  find(name: RepositoryName, digest: Digest): Promise<number | undefined> {
    return this.#gate.use(digest, async () => {
      const [link, blob] = await Promise.all([
        this.#storage.stat(layout.link(name, digest)),
        this.#storage.stat(layout.blob(digest)),
      ]);
      if (!link || !blob) return undefined;
      await this.#renew(name, { digest, renewedAtMs: link.modifiedAtMs });
      return blob.sizeBytes;
    });
  }

  /** For reading; the caller closes it. */
  async open(name: RepositoryName, digest: Digest): Promise<OpenObject | undefined> {
    const [link, blob] = await Promise.all([
      this.#storage.stat(layout.link(name, digest)),
      this.#storage.open(layout.blob(digest)),
    ]);
    if (link) return blob;
    await blob?.[Symbol.asyncDispose]();
    return undefined;
  }

  /** Content that is all in memory, its digest already checked. */
  async commitBytes(name: RepositoryName, digest: Digest, content: Uint8Array): Promise<void> {
    const write = () => this.#storage.put(layout.blob(digest), content);
    await this.#commit(name, { digest, sizeBytes: content.length, write });
  }

  /** A complete local file, its digest already checked; it is gone afterwards. */
  async commitFile(name: RepositoryName, digest: Digest, file: LocalFile): Promise<void> {
    const write = () => this.#storage.putFile(layout.blob(digest), file);
    try {
      await this.#commit(name, { digest, sizeBytes: file.sizeBytes, write });
    } finally {
      await rm(file.path, { force: true });
    }
  }

  async #commit(name: RepositoryName, { digest, sizeBytes, write }: Commit): Promise<void> {
    await this.#gate.use(digest, async () => {
      const writeContent = async () => {
        if (!(await this.#storage.stat(layout.blob(digest)))) await write();
      };
      const link = () => this.#storage.put(layout.link(name, digest), nothing);
      await this.#quota.reserve(name, { digest, sizeBytes }, () => settleAll([writeContent(), link()]));
    });
  }

  /** Makes a blob of another repository a member of this one; false when it is not there. */
  mount(name: RepositoryName, digest: Digest, from: RepositoryName): Promise<boolean> {
    return this.#gate.use(digest, async () => {
      const [source, blob] = await Promise.all([
        this.#storage.stat(layout.link(from, digest)),
        this.#storage.stat(layout.blob(digest)),
      ]);
      if (!source || !blob) return false;
      await this.#link(name, digest, blob.sizeBytes);
      return true;
    });
  }

  /** Makes any blob that is stored a member; only for callers who may read all repositories. */
  mountFromAnywhere(name: RepositoryName, digest: Digest): Promise<boolean> {
    return this.#gate.use(digest, async () => {
      const blob = await this.#storage.stat(layout.blob(digest));
      if (!blob) return false;
      await this.#link(name, digest, blob.sizeBytes);
      return true;
    });
  }

  async #link(name: RepositoryName, digest: Digest, sizeBytes: number): Promise<void> {
    const link = () => this.#storage.put(layout.link(name, digest), nothing);
    await this.#quota.reserve(name, { digest, sizeBytes }, link);
  }

  /** Takes the blob out of the repository; its content stays for the others. False when it was not a member. */
  async unlink(name: RepositoryName, digest: Digest): Promise<boolean> {
    const removed = await this.#storage.delete(layout.link(name, digest));
    if (removed) this.#quota.countAgain(name);
    return removed;
  }

  /** Throws when a blob of so many bytes is too much for the repository; a look before they are sent. */
  assertRoom(name: RepositoryName, bytes: number, digest?: Digest): Promise<void> {
    return this.#quota.assertRoom(name, { digest, sizeBytes: bytes });
  }

  /** Not at every look: once in half a lease is enough to keep it alive. */
  async #renew(
    name: RepositoryName,
    { digest, renewedAtMs }: { digest: Digest; renewedAtMs: number },
  ): Promise<void> {
    if (this.#now() - renewedAtMs < this.#leaseMs / 2) return;
    if (!(await this.#storage.touch(layout.link(name, digest))))
      throw new Fault("unavailable", `${name}: ${digest} was being deleted; try again`);
  }
}

/** Waits for all, so that nothing goes on behind the back of the answer; then the first failure counts. */
async function settleAll(steps: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(steps);
  const failed = results.find((result) => result.status === "rejected");
  if (failed) throw failed.reason;
}
