/** Sandboxes as the cache shows them, and waiting for one to change. */
import { isFault, type Abortable } from "@cocoon/core";
import type { ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import { CacheWaiters } from "./cache-waiters.ts";
import { tryReadSandbox, type Sandbox, type SetObject } from "./sandbox.ts";

type Owner = Pick<Sandbox, "namespace" | "id">;

export class SandboxStore implements Disposable {
  readonly #cache: ObjectCache<SetObject>;
  readonly #sets: TenantSets;
  readonly #now: () => Date;
  readonly #waiters: CacheWaiters;
  /** Ids are unique in a cluster: host names carry no namespace. */
  readonly #byId: { get(key: string): Iterable<SetObject> };

  constructor(cache: ObjectCache<SetObject>, sets: TenantSets, now: () => Date = () => new Date()) {
    this.#cache = cache;
    this.#sets = sets;
    this.#now = now;
    this.#byId = cache.index(readId);
    this.#waiters = new CacheWaiters(cache);
  }

  list(namespace: string): Sandbox[] {
    const now = this.#now();
    const found: Sandbox[] = [];
    for (const set of this.#cache.list()) {
      if (set.metadata.namespace !== namespace) continue;
      const sandbox = tryReadSandbox(set, now);
      if (sandbox) found.push(sandbox);
    }
    return found;
  }

  tryGet({ namespace, id }: Owner): Sandbox | undefined {
    const set = this.#cache.get({ namespace, name: id });
    return set && tryReadSandbox(set, this.#now());
  }

  /** For traffic, which names no tenant. */
  tryFind(id: string): Sandbox | undefined {
    for (const set of this.#byId.get(id)) {
      const sandbox = tryReadSandbox(set, this.#now());
      if (sandbox) return sandbox;
    }
    return undefined;
  }

  /** The tenant's own, or 404. One that another replica has just made may not be in the cache yet. */
  async require(tenant: Tenant, id: string, options: Abortable): Promise<Sandbox> {
    const known = this.tryGet({ namespace: tenant.namespace, id }) ?? (await this.#read(tenant, id, options));
    if (!known) throw new ApiError(404, `Sandbox ${id} not found`);
    return known;
  }

  async #read(tenant: Tenant, id: string, options: Abortable): Promise<Sandbox | undefined> {
    if (this.#cache.get({ namespace: tenant.namespace, name: id })) return undefined; // terminating, or no sandbox
    try {
      return tryReadSandbox(await this.#sets.get(tenant, id, options), this.#now());
    } catch (error) {
      if (isFault(error, "notFound") || isFault(error, "forbidden")) return undefined;
      throw error;
    }
  }

  /** Resolves with what `check` returns once that is not undefined; `check` may throw. */
  waitFor<T>(
    { namespace, id }: Owner,
    check: (set: SetObject | undefined) => T | undefined,
    options: Abortable,
  ): Promise<T> {
    return this.#waiters.waitFor({ namespace, name: id }, check, options);
  }

  now(): Date {
    return this.#now();
  }

  [Symbol.dispose](): void {
    this.#waiters[Symbol.dispose]();
  }
}

function readId({ metadata }: SetObject): readonly string[] {
  return [metadata.name ?? ""];
}
