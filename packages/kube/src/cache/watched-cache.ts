/** One watch and its objects. */
import { Fault, getErrorMessage, jsonEqual, orAborted, type Abortable, type Logger } from "@cocoon/core";
import {
  getKey,
  keyText,
  type KubeObject,
  type ObjectKey,
  type ResourceType,
  isSameState,
} from "../object.ts";
import type { CacheOptions, CachesOptions, ObjectCache } from "./cache.ts";
import type { CacheIndex, IndexKeys } from "./cache-index.ts";
import { CacheStore, type CacheEvent } from "./cache-store.ts";
import { watchBatches } from "./watch.ts";
import type { WatchBatch, WatchEvent } from "./watch-options.ts";

interface Listing<T> {
  readonly objects: Map<string, T>;
  readonly unreadable: Set<string>;
  /** One of them could not even be named: then nothing that is missing is known to be gone. */
  nameless: boolean;
}

type Malformed<T> = Extract<WatchEvent<T>, { kind: "malformed" }>;

export class WatchedCache<T extends KubeObject> implements ObjectCache<T> {
  readonly #store = new CacheStore<T>((error) => this.#fail(error, "an index function of the cache failed"));
  readonly malformed = new Map<string, unknown>();
  readonly #log: Logger;
  readonly #listeners = new Set<(event: CacheEvent<T>) => void>();
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  readonly #failed = Promise.withResolvers<never>();
  readonly failed = this.#failed.promise;
  readonly #running: Promise<void>;
  isSynced = false;
  resourceVersion: string | undefined;
  #listing: Listing<T> | undefined;

  constructor(setup: CachesOptions, type: ResourceType<T>, options: CacheOptions<T>) {
    const { read = (object) => object as T, transform, managedFields = false, ...selection } = options;
    this.#log = setup.log;
    this.#synced.promise.catch(() => {}); // callers that wait see the rejection
    this.#failed.promise.catch(() => {});
    this.#running = this.#run(
      watchBatches(setup.client, type, {
        ...selection,
        signal: this.#stop.signal,
        log: setup.log,
        managedFields,
        read: transform ? (object) => transform(read(object)) : read,
        ...(setup.tuning && { tuning: setup.tuning }),
      }),
    );
  }

  get size(): number {
    return this.#store.size;
  }

  get(key: ObjectKey): T | undefined {
    return this.#store.get(keyText(key));
  }

  list(): Iterable<T> {
    return this.#store.values();
  }

  index(readKeys: IndexKeys<T>): CacheIndex<T> {
    return this.#store.index(readKeys);
  }

  synced(options: Abortable): Promise<void> {
    return orAborted(this.#synced.promise, options);
  }

  subscribe(listener: (event: CacheEvent<T>) => void): Disposable {
    const guarded = (event: CacheEvent<T>) => this.#call(listener, event);
    if (this.isSynced)
      for (const object of this.#store.values()) guarded({ kind: "added", object, initial: true });
    this.#listeners.add(guarded);
    return { [Symbol.dispose]: () => void this.#listeners.delete(guarded) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error("the cache is closed"));
    this.#synced.reject(new Fault("unavailable", "the cache was closed before its first list was in"));
    this.#listeners.clear();
    await this.#running;
  }

  async #run(batches: AsyncIterable<WatchBatch<T>>): Promise<void> {
    try {
      for await (const { events, version } of batches) {
        for (const event of events) this.#apply(event);
        if (this.#listing === undefined) this.resourceVersion = version ?? this.resourceVersion;
      }
    } catch (error) {
      // A watch does not give up: this is a bug here, and no consumer may continue with a stale set unaware.
      this.#fail(error, "the cache stopped");
    }
  }

  #apply(event: WatchEvent<T>): void {
    if (event.kind === "relisting")
      this.#listing = { objects: new Map(), unreadable: new Set(), nameless: false };
    else if (event.kind === "synced") this.#swap(event.version);
    else if (event.kind === "malformed") this.#passOver(event);
    else if (this.#listing) this.#list(this.#listing, event);
    else this.#change(event.kind, event.object);
  }

  #list(listing: Listing<T>, event: { readonly kind: string; readonly object: T }): void {
    const { object } = event;
    const key = keyText(getKey(object));
    const known = this.#store.get(key);
    listing.unreadable.delete(key);
    if (event.kind === "deleted") listing.objects.delete(key);
    // What did not change is not kept twice. A storage that was restored gives old versions to new states: the content counts.
    else if (known && isSameState(known, object) && jsonEqual(known, object)) listing.objects.set(key, known);
    else listing.objects.set(key, object);
  }

  #change(kind: string, object: T): void {
    const key = keyText(getKey(object));
    this.malformed.delete(key);
    const events = kind === "deleted" ? this.#store.remove(key, object) : this.#store.put(key, object);
    this.resourceVersion = object.metadata.resourceVersion ?? this.resourceVersion;
    this.#notify(events);
  }

  #swap(version: string): void {
    const listing = this.#listing;
    if (!listing) return;
    this.#listing = undefined;
    const { objects, unreadable, nameless } = listing;
    for (const key of this.malformed.keys()) if (!unreadable.has(key)) this.malformed.delete(key);
    const keep = (key: string) => nameless || unreadable.has(key);
    const events = this.#store.swap(objects, { keep, initial: !this.isSynced });
    this.resourceVersion = version;
    this.isSynced = true;
    this.#notify(events);
    this.#synced.resolve();
  }

  /** The last state that could be read stays: "cannot be read" is not "is gone". */
  #passOver({ key, cause, gone }: Malformed<T>): void {
    if (gone) {
      this.malformed.delete(key);
      this.#listing?.objects.delete(key);
      if (!this.#listing) this.#notify(this.#store.remove(key));
      return;
    }
    if (key === "?") {
      if (this.#listing) this.#listing.nameless = true;
      return;
    }
    this.#listing?.unreadable.add(key);
    this.malformed.set(key, cause);
  }

  #notify(events: readonly CacheEvent<T>[]): void {
    for (const event of events) for (const listener of this.#listeners) listener(event);
  }

  #call(listener: (event: CacheEvent<T>) => void, event: CacheEvent<T>): void {
    try {
      listener(event);
    } catch (error) {
      this.#fail(error, "a listener of the cache failed");
    }
  }

  #fail(error: unknown, message: string): void {
    this.#log.error({ err: error, error: getErrorMessage(error) }, message);
    this.#failed.reject(error);
  }
}
