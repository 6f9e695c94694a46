/**
 * The objects of a kind in memory, kept current by a watch. During a relist the old set stays visible until the new one is
 * complete. An object that cannot be read keeps its last readable state and is listed in `malformed`.
 */
import { Fault, type Abortable, type Logger } from "@cocoon/core";
import type { CacheIndex, IndexKeys } from "./cache-index.ts";
import type { CacheEvent } from "./cache-store.ts";
import type { KubeConnection } from "../client/client.ts";
import { resourceName, type KubeObject, type ObjectKey, type ResourceType } from "../object.ts";
import type { Selection, WatchTuning } from "./watch-options.ts";
import { WatchedCache } from "./watched-cache.ts";

export interface CacheOptions<T> extends Selection {
  /** Checks each object; what it throws makes the object `malformed`. */
  readonly read?: (object: KubeObject) => T;
  /** Drops what is never read, to save memory. Name, namespace, uid and resourceVersion must stay. */
  readonly transform?: (object: T) => T;
  /** They are dropped unless this is set. */
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
  /** An index by that function, shared by callers with the same function. Where it throws, the object is left out: see `failed`. */
  index(readKeys: IndexKeys<T>): CacheIndex<T>;
  /** Calls with everything that is there now, then with every change, in the turn in which `get` begins to show it. */
  subscribe(listener: CacheListener<T>): Disposable;
  /** Everything up to this version of the collection has been taken in. Undefined before the first list. */
  readonly resourceVersion: string | undefined;
  /** Objects whose newest state cannot be read, and why. */
  readonly malformed: ReadonlyMap<string, unknown>;
  /** Rejects when a listener or an index function throws; never resolves. */
  readonly failed: Promise<never>;
}

export interface Caches extends AsyncDisposable {
  /** Begins to watch; the watch ends when the cache is disposed. */
  open<T extends KubeObject>(type: ResourceType<T>, options?: CacheOptions<T>): ObjectCache<T>;
}

export interface CachesOptions {
  readonly client: KubeConnection;
  readonly log: Logger;
  readonly tuning?: WatchTuning;
}

export function openCaches(options: CachesOptions): Caches {
  const open = new Set<AsyncDisposable>();
  let closed = false;
  return {
    open: (type, cacheOptions = {}) => {
      if (closed) throw new Fault("unavailable", "the caches are closed");
      const log = options.log.child({ cache: resourceName(type) });
      const cache = new WatchedCache({ ...options, log }, type, cacheOptions);
      open.add(cache);
      return cache;
    },
    [Symbol.asyncDispose]: async () => {
      closed = true;
      await Promise.all([...open].map((cache) => cache[Symbol.asyncDispose]()));
    },
  };
}
