/** From a change of some object to the keys that a controller has to look at. */
import type { CacheEvent } from "../cache/cache-store.ts";
import { getKey, type KubeObject, type ObjectKey, type ResourceType } from "../object.ts";
import { findController } from "./owner-references.ts";

export type { CacheEvent as Change } from "../cache/cache-store.ts";

/** A cache as a controller needs it. Listeners are called in the turn in which `get` begins to answer with the new object. */
export interface Source<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  list(): Iterable<T>;
  synced(options: { readonly signal: AbortSignal }): Promise<void>;
  /** Reports everything that is there now, then every change, until disposed. The listener must not throw. */
  subscribe(listener: (change: CacheEvent<T>) => void): Disposable;
  /** Everything up to this version of the collection has been taken in. Undefined before the first list. */
  readonly resourceVersion: string | undefined;
}

/** Which changes are worth a reconcile. Pure and cheap: it runs for every change of every object. */
export type Predicate<T> = (change: CacheEvent<T>) => boolean;

/** Creations and deletions pass; an update passes when the test says so. */
export function onUpdate<T>(test: (old: T, object: T) => boolean): Predicate<T> {
  return (change) => change.kind !== "updated" || test(change.old, change.object);
}

/** The spec changed, or deletion began: status and metadata writes do not count. */
export const generationChanged: Predicate<KubeObject> = onUpdate(
  (old, object) => old.metadata.generation !== object.metadata.generation || deletionBegan(old, object),
);

function deletionBegan(old: KubeObject, object: KubeObject): boolean {
  return old.metadata.deletionTimestamp === undefined && object.metadata.deletionTimestamp !== undefined;
}

export interface Watch {
  /** The objects that are reconciled themselves; only these are looked at again by a resync. */
  readonly primary: boolean;
  synced(options: { readonly signal: AbortSignal }): Promise<void>;
  subscribe(listener: WatchListener): Disposable;
  keys(): Iterable<ObjectKey>;
}

interface WatchListener {
  /** `initial`: it follows from the first list, not from something that happened. */
  enqueue(key: ObjectKey, origin: { readonly initial: boolean }): void;
  /** A predicate or a mapping threw; the change was passed on as far as it could be. */
  failed(error: unknown): void;
}

export interface WatchOptions<T> {
  readonly predicate?: Predicate<T>;
}

export function watchObjects<T extends KubeObject>(source: Source<T>, options: WatchOptions<T> = {}): Watch {
  return watch(source, { ...options, primary: true, map: (object) => [getKey(object)] });
}

export interface OwnedWatchOptions<T> extends WatchOptions<T> {
  readonly owner: ResourceType<KubeObject>;
}

export function watchOwned<T extends KubeObject>(source: Source<T>, options: OwnedWatchOptions<T>): Watch {
  const { owner } = options;
  return watch(source, { ...options, primary: false, map: (object) => ownerKeys(object, owner) });
}

function ownerKeys(object: KubeObject, owner: ResourceType<KubeObject>): readonly ObjectKey[] {
  const reference = findController(object);
  if (reference?.kind !== owner.kind) return [];
  // The version may differ: an owner that was written through another version is the same owner.
  const group = reference.apiVersion.includes("/") ? reference.apiVersion.split("/")[0] : "";
  if (group !== owner.group) return [];
  const namespace = owner.namespaced ? object.metadata.namespace : undefined;
  return [{ namespace, name: reference.name }];
}

export interface MappedWatchOptions<T> extends WatchOptions<T> {
  /** The keys that an object concerns. On an update both the old and the new state are mapped. */
  readonly map: (object: T) => Iterable<ObjectKey>;
}

export function watchMapped<T extends KubeObject>(source: Source<T>, options: MappedWatchOptions<T>): Watch {
  return watch(source, { ...options, primary: false });
}

function watch<T extends KubeObject>(
  source: Source<T>,
  options: MappedWatchOptions<T> & { readonly primary: boolean },
): Watch {
  return {
    primary: options.primary,
    synced: (wait) => source.synced(wait),
    subscribe: (listener) => source.subscribe((change) => pass(change, options, listener)),
    *keys() {
      for (const object of source.list()) yield* options.map(object);
    },
  };
}

function pass<T>(change: CacheEvent<T>, options: MappedWatchOptions<T>, listener: WatchListener): void {
  if (!accepts(change, options.predicate, listener)) return;
  const initial = change.kind === "added" && change.initial;
  const states = change.kind === "updated" ? [change.old, change.object] : [change.object];
  for (const state of states) {
    try {
      for (const key of options.map(state)) listener.enqueue(key, { initial });
    } catch (error) {
      listener.failed(error);
    }
  }
}

/** A predicate that throws lets the change pass: one look too many does no harm. */
function accepts<T>(
  change: CacheEvent<T>,
  predicate: Predicate<T> | undefined,
  listener: WatchListener,
): boolean {
  try {
    return predicate?.(change) ?? true;
  } catch (error) {
    listener.failed(error);
    return true;
  }
}
