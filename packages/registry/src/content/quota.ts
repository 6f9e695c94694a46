/**
 * How much a repository may hold: the content of all blobs it has links to, each once. What it holds is counted once
 * from the storage and kept up to date from then on; repositories without a limit are never counted.
 */
import { matchesPattern } from "../pattern.ts";
import type { Digest, RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import { folders, lastPart, layout, readName } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

export interface QuotaRule {
  /** A repository name in which "*" stands for any text. The first rule that matches counts. */
  readonly pattern: string;
  readonly maxBytes: number;
}

interface Expected {
  /** If it is known already. */
  readonly digest: Digest | undefined;
  readonly sizeBytes: number;
}

interface Addition {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

export class Quota {
  readonly #storage: Storage;
  readonly #rules: readonly QuotaRule[];
  readonly #used = new Map<RepositoryName, Promise<{ bytes: number }>>();

  constructor(storage: Storage, rules: readonly QuotaRule[]) {
    this.#storage = storage;
    this.#rules = rules;
  }

  async assertRoom(name: RepositoryName, { digest, sizeBytes }: Expected): Promise<void> {
    const limit = this.#limitOf(name);
    if (limit === undefined || (digest && (await this.#holds(name, digest)))) return;
    const used = await this.#usageOf(name);
    assertFits({ name, limit, used: used.bytes, more: sizeBytes });
  }

  /** Counts a blob in before the action that links it, and out again if that fails or it was there already. */
  async reserve(
    name: RepositoryName,
    { digest, sizeBytes }: Addition,
    action: () => Promise<void>,
  ): Promise<void> {
    const limit = this.#limitOf(name);
    if (limit === undefined || (await this.#holds(name, digest))) {
      await action();
      return;
    }
    const used = await this.#usageOf(name);
    assertFits({ name, limit, used: used.bytes, more: sizeBytes });
    used.bytes += sizeBytes;
    try {
      await action();
    } catch (error) {
      used.bytes -= sizeBytes;
      throw error;
    }
  }

  /** Something was removed: the next question counts anew. */
  countAgain(name: RepositoryName): void {
    this.#used.delete(name);
  }

  async #holds(name: RepositoryName, digest: Digest): Promise<boolean> {
    return (await this.#storage.stat(layout.link(name, digest))) !== undefined;
  }

  #limitOf(name: RepositoryName): number | undefined {
    return this.#rules.find(({ pattern }) => matchesPattern(pattern, name))?.maxBytes;
  }

  #usageOf(name: RepositoryName): Promise<{ bytes: number }> {
    let used = this.#used.get(name);
    if (!used) {
      used = this.#count(name);
      this.#used.set(name, used);
      used.catch(() => this.#used.delete(name));
    }
    return used;
  }

  async #count(name: RepositoryName): Promise<{ bytes: number }> {
    let bytes = 0;
    for await (const { key } of this.#storage.list(folders.links(name))) {
      const digest = readName.digest(lastPart(key));
      bytes += (digest && (await this.#storage.stat(layout.blob(digest)))?.sizeBytes) ?? 0;
    }
    return { bytes };
  }
}

interface Fit {
  readonly name: RepositoryName;
  readonly limit: number;
  readonly used: number;
  readonly more: number;
}

function assertFits({ name, limit, used, more }: Fit): void {
  if (used + more > limit)
    throw ociFault("DENIED", `${name} may hold ${limit} bytes and holds ${used}; ${more} more do not fit`);
}
