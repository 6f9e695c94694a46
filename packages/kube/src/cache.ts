/**
 * The objects of a kind in memory, kept current by a watch. Reads cost nothing and never wait; what they show may be a
 * moment old. When everything is listed again, the old set stays visible until the new one is complete, then one
 * replaces the other at once and listeners hear the difference, deletions included.
 *
 * An object that cannot be read does not vanish: its last readable state stays, and `malformed` says so.
 */
import { Fault, type Abortable, type Logger } from "@cocoon/core";
import { CacheCore } from "./cache-core.ts";
import type { CacheIndex, IndexKeys } from "./cache-index.ts";
import type { CacheEvent } from "./cache-store.ts";
import type { KubeConnection } from "./client.ts";
import { keyText, resourceName, type KubeObject, type ObjectKey, type ResourceType } from "./object.ts";
import type { Selection, WatchTuning } from "./watch.ts";

export interface CacheOptions<T> extends Selection {
  /** Checks each object; what it throws makes the object `malformed`. */
  readonly read?: (object: KubeObject) => T;
  /**
   * Drops what nobody reads, to save memory. Called once per state, after `read`; may change the object it is given.
   * Name, namespace, uid and resourceVersion must stay.
   */
  readonly transform?: (object: T) => T;
  /** They are dropped unless asked for. */
  readonly managedFields?: boolean;
}

export type CacheListener<T> = (event: CacheEvent<T>) => void;

export interface ObjectCache<T extends KubeObject> extends AsyncDisposable {
  /** Resolves when the first list is in; rejects when the signal aborts or the cache is closed before. */
  synced(options: Abortable): Promise<void>;
  readonly isSynced: boolean;
  get(key: ObjectKey): T | undefined;
  list(): Iterable<T>;
  readonly size: number;
  /**
   * An index by that function, built now if there is none yet. Ask with the same function to share it. An object for
   * which the function throws is not found by it: see `failed`.
   */
  index(valuesOf: IndexKeys<T>): CacheIndex<T>;
  /**
   * Tells of everything that is there now, then of every change, until disposed. Called in the turn in which `get`
   * begins to show the change. A listener that throws does not stop the others: see `failed`.
   */
  subscribe(listener: CacheListener<T>): Disposable;
  /** Everything up to this version of the collection has been taken in. Undefined before the first list. */
  readonly resourceVersion: string | undefined;
  /** Objects whose newest state cannot be read, and why. */
  readonly malformed: ReadonlyMap<string, unknown>;
  /** Rejects when a listener or an index function throws; never resolves. */
  readonly failed: Promise<never>;
}

/** Caches that are shared: whoever asks for the same objects in the same form gets the same one. */
export interface Caches extends AsyncDisposable {
  /**
   * Begins to watch, unless somebody else already does. The watch ends when the last one who opened it disposes it.
   * `read` and `transform` count as the same when they are the same functions.
   */
  open<T extends KubeObject>(type: ResourceType<T>, options?: CacheOptions<T>): ObjectCache<T>;
}

export interface CachesOptions {
  readonly client: KubeConnection;
  readonly log: Logger;
  readonly tuning?: WatchTuning;
}

export function openCaches(options: CachesOptions): Caches {
  return new SharedCaches(options);
}

interface Shared {
  readonly key: string;
  readonly read: unknown;
  readonly transform: unknown;
  readonly core: CacheCore<KubeObject>;
  users: number;
}

class SharedCaches implements Caches {
  readonly #options: CachesOptions;
  readonly #shared = new Set<Shared>();
  #closed = false;

  constructor(options: CachesOptions) {
    this.#options = options;
  }

  open<T extends KubeObject>(type: ResourceType<T>, options: CacheOptions<T> = {}): ObjectCache<T> {
    if (this.#closed) throw new Fault("unavailable", "the caches are closed");
    const key = sharingKey(type, options);
    const { read, transform } = options;
    const known = [...this.#shared].find(
      (each) => each.key === key && each.read === read && each.transform === transform,
    );
    const shared = known ?? { key, read, transform, core: this.#start(type, options), users: 0 };
    shared.users += 1;
    this.#shared.add(shared);
    // What is found under the same kind holds objects of the same type.
    return new CacheHandle(shared.core as unknown as CacheCore<T>, () => this.#leave(shared));
  }

  #start<T extends KubeObject>(type: ResourceType<T>, options: CacheOptions<T>): CacheCore<KubeObject> {
    const log = this.#options.log.child({ cache: resourceName(type) });
    return new CacheCore({ ...this.#options, log }, type, options) as unknown as CacheCore<KubeObject>;
  }

  async #leave(shared: Shared): Promise<void> {
    shared.users -= 1;
    if (shared.users > 0) return;
    this.#shared.delete(shared);
    await shared.core[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const all = [...this.#shared];
    this.#shared.clear();
    await Promise.all(all.map((each) => each.core[Symbol.asyncDispose]()));
  }
}

function sharingKey(
  type: ResourceType<KubeObject>,
  options: Pick<CacheOptions<KubeObject>, keyof Selection | "managedFields">,
): string {
  const { namespace, labelSelector, fieldSelector, managedFields = false } = options;
  return JSON.stringify([
    resourceName(type),
    type.version,
    namespace,
    labelSelector,
    fieldSelector,
    managedFields,
  ]);
}

/** One user's view: disposing it ends this user's subscriptions, and the watch when it was the last. */
class CacheHandle<T extends KubeObject> implements ObjectCache<T> {
  readonly #core: CacheCore<T>;
  readonly #leave: () => Promise<void>;
  readonly #subscriptions = new Set<Disposable>();
  #left: Promise<void> | undefined;

  constructor(core: CacheCore<T>, leave: () => Promise<void>) {
    this.#core = core;
    this.#leave = leave;
  }

  synced(options: Abortable): Promise<void> {
    return this.#core.synced(options);
  }

  get isSynced(): boolean {
    return this.#core.isSynced;
  }

  get(key: ObjectKey): T | undefined {
    return this.#core.store.get(keyText(key));
  }

  list(): Iterable<T> {
    return this.#core.store.values();
  }

  get size(): number {
    return this.#core.store.size;
  }

  index(valuesOf: IndexKeys<T>): CacheIndex<T> {
    return this.#core.store.index(valuesOf);
  }

  subscribe(listener: CacheListener<T>): Disposable {
    const subscription = this.#core.subscribe(listener);
    this.#subscriptions.add(subscription);
    return {
      [Symbol.dispose]: () => {
        this.#subscriptions.delete(subscription);
        subscription[Symbol.dispose]();
      },
    };
  }

  get resourceVersion(): string | undefined {
    return this.#core.resourceVersion;
  }

  get malformed(): ReadonlyMap<string, unknown> {
    return this.#core.malformed;
  }

  get failed(): Promise<never> {
    return this.#core.failed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
    this.#subscriptions.clear();
    this.#left ??= this.#leave();
    return this.#left;
  }
}
