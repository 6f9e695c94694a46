/** One watch and the objects that it brings, whoever uses them. */
import { Fault, messageOf, orAborted, type Abortable, type Logger } from "@cocoon/core";
import { CacheStore, isSameState, type CacheEvent } from "./cache-store.ts";
import type { KubeConnection } from "./client.ts";
import { keyOf, keyText, type KubeObject, type ResourceType } from "./object.ts";
import { watchBatches, type Selection, type WatchBatch, type WatchEvent, type WatchTuning } from "./watch.ts";

export interface CacheSetup {
  readonly client: KubeConnection;
  readonly log: Logger;
  readonly tuning?: WatchTuning;
}

interface CoreOptions<T> extends Selection {
  readonly read?: (object: KubeObject) => T;
  readonly transform?: (object: T) => T;
  readonly managedFields?: boolean;
}

/** A list that is under way. */
interface Listing<T> {
  readonly objects: Map<string, T>;
  /** Objects that are there and cannot be read. */
  readonly unreadable: Set<string>;
  /** One of them could not even be named: then nothing that is missing is known to be gone. */
  nameless: boolean;
}

type Malformed<T> = Extract<WatchEvent<T>, { kind: "malformed" }>;

export class CacheCore<T extends KubeObject> implements AsyncDisposable {
  readonly store = new CacheStore<T>((error) => this.#fail(error, "an index function of the cache failed"));
  readonly malformed = new Map<string, unknown>();
  readonly #log: Logger;
  readonly #listeners = new Set<(event: CacheEvent<T>) => void>();
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  readonly #failed = Promise.withResolvers<never>();
  readonly #running: Promise<void>;
  #isSynced = false;
  #version: string | undefined;
  #listing: Listing<T> | undefined;

  constructor(setup: CacheSetup, type: ResourceType<T>, options: CoreOptions<T>) {
    const { read = (object) => object as T, transform, managedFields = false, ...selection } = options;
    this.#log = setup.log;
    this.#synced.promise.catch(() => {}); // whoever waits for these two hears it
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

  get isSynced(): boolean {
    return this.#isSynced;
  }

  get resourceVersion(): string | undefined {
    return this.#version;
  }

  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  synced(options: Abortable): Promise<void> {
    return orAborted(this.#synced.promise, options);
  }

  subscribe(listener: (event: CacheEvent<T>) => void): Disposable {
    const guarded = (event: CacheEvent<T>) => this.#call(listener, event);
    if (this.#isSynced)
      for (const object of this.store.values()) guarded({ kind: "added", object, initial: true });
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
        if (this.#listing === undefined) this.#version = version ?? this.#version;
      }
    } catch (error) {
      // A watch does not give up: this is a mistake in here, and nobody may go on with an old set unaware.
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
    const key = keyText(keyOf(object));
    const known = this.store.get(key);
    listing.unreadable.delete(key);
    // What did not change is not kept twice.
    if (event.kind === "deleted") listing.objects.delete(key);
    else listing.objects.set(key, known && isSameState(known, object) ? known : object);
  }

  #change(kind: string, object: T): void {
    const key = keyText(keyOf(object));
    this.malformed.delete(key);
    const events = kind === "deleted" ? this.store.remove(key, object) : this.store.put(key, object);
    this.#version = object.metadata.resourceVersion ?? this.#version;
    this.#tell(events);
  }

  #swap(version: string): void {
    const listing = this.#listing;
    if (!listing) return;
    this.#listing = undefined;
    const { objects, unreadable, nameless } = listing;
    for (const key of this.malformed.keys()) if (!unreadable.has(key)) this.malformed.delete(key);
    const keep = (key: string) => nameless || unreadable.has(key);
    const events = this.store.swap(objects, { keep, initial: !this.#isSynced });
    this.#version = version;
    this.#isSynced = true;
    this.#tell(events);
    this.#synced.resolve();
  }

  /** The last state that could be read stays: "cannot be read" is not "is gone". */
  #passOver({ key, cause, gone }: Malformed<T>): void {
    if (gone) {
      this.malformed.delete(key);
      this.#listing?.objects.delete(key);
      if (!this.#listing) this.#tell(this.store.remove(key));
      return;
    }
    if (key === "?") {
      if (this.#listing) this.#listing.nameless = true;
      return;
    }
    this.#listing?.unreadable.add(key);
    this.malformed.set(key, cause);
  }

  #tell(events: readonly CacheEvent<T>[]): void {
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
    this.#log.error({ err: error, error: messageOf(error) }, message);
    this.#failed.reject(error);
  }
}
