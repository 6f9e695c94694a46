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

export interface Room {
  readonly freeBytes: number;
  assertFits(moreBytes: number): void;
}

const unlimitedRoom: Room = { freeBytes: Infinity, assertFits: () => undefined };

export class Quota {
  readonly #storage: Storage;
  readonly #rules: readonly QuotaRule[];
  readonly #used = new Map<RepositoryName, Promise<{ bytes: number }>>();

  constructor(storage: Storage, rules: readonly QuotaRule[]) {
    this.#storage = storage;
    this.#rules = rules;
  }

  /** How much more the repository may hold; a blob that it holds already needs no room. */
  async findRoom(name: RepositoryName, digest: Digest | undefined): Promise<Room> {
    const limit = this.findLimit(name);
    if (limit === undefined || (digest && (await this.#holds(name, digest)))) return unlimitedRoom;
    const { bytes: used } = await this.#getUsage(name);
    return {
      freeBytes: Math.max(0, limit - used),
      assertFits: (more) => assertFits({ name, limit, used, more }),
    };
  }

  /** Counts a blob in before the action that links it, and out again if that fails or it was there already. */
  async reserve(
    name: RepositoryName,
    { digest, sizeBytes }: { readonly digest: Digest; readonly sizeBytes: number },
    action: () => Promise<void>,
  ): Promise<void> {
    const limit = this.findLimit(name);
    if (limit === undefined || (await this.#holds(name, digest))) {
      await action();
      return;
    }
    const used = await this.#getUsage(name);
    assertFits({ name, limit, used: used.bytes, more: sizeBytes });
    used.bytes += sizeBytes;
    try {
      await action();
    } catch (error) {
      used.bytes -= sizeBytes;
      throw error;
    }
  }

  /** Something was removed: count again at the next use. */
  countAgain(name: RepositoryName): void {
    this.#used.delete(name);
  }

  async #holds(name: RepositoryName, digest: Digest): Promise<boolean> {
    return (await this.#storage.stat(layout.link(name, digest))) !== undefined;
  }

  findLimit(name: RepositoryName): number | undefined {
    return this.#rules.find(({ pattern }) => matchesPattern(pattern, name))?.maxBytes;
  }

  #getUsage(name: RepositoryName): Promise<{ bytes: number }> {
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
    throw ociFault("DENIED", `${name} may hold ${limit} bytes and holds ${used}; ${more} more do not fit`, {
      as: "tooLarge",
    });
}
