/** From a change of some object to the keys that a controller has to look at. */
import { keyOf, type KubeObject, type ObjectKey, type ResourceType } from "../object.ts";
import { controllerOf } from "./owner-references.ts";
import type { Predicate } from "./predicates.ts";
import type { Change, Source } from "./source.ts";

/** One origin of work. Built by the functions below. */
export interface Watch {
  /** The objects that are reconciled themselves; only these are looked at again by a resync. */
  readonly primary: boolean;
  synced(options: { readonly signal: AbortSignal }): Promise<void>;
  subscribe(listener: WatchListener): Disposable;
  /** The keys that follow from everything that is there now. */
  keys(): Iterable<ObjectKey>;
}

export interface WatchListener {
  /** `initial`: it follows from the first list, not from something that happened. */
  enqueue(key: ObjectKey, origin: { readonly initial: boolean }): void;
  /** A predicate or a mapping threw; the change was passed on as far as it could be. */
  failed(error: unknown): void;
}

export interface WatchOptions<T> {
  readonly predicate?: Predicate<T>;
}

/** The objects that are reconciled. */
export function watchObjects<T extends KubeObject>(source: Source<T>, options: WatchOptions<T> = {}): Watch {
  return watch(source, { ...options, primary: true, map: (object) => [keyOf(object)] });
}

export interface OwnedWatchOptions<T> extends WatchOptions<T> {
  /** The kind of the owners, which are reconciled. */
  readonly owner: ResourceType<KubeObject>;
}

/** Objects that have a managing owner of the given kind: the owner is looked at. */
export function watchOwned<T extends KubeObject>(source: Source<T>, options: OwnedWatchOptions<T>): Watch {
  const { owner } = options;
  return watch(source, { ...options, primary: false, map: (object) => ownerKeys(object, owner) });
}

function ownerKeys(object: KubeObject, owner: ResourceType<KubeObject>): readonly ObjectKey[] {
  const reference = controllerOf(object);
  if (reference?.kind !== owner.kind) return [];
  // The version may differ: an owner that was written through another version is the same owner.
  const group = reference.apiVersion.includes("/") ? reference.apiVersion.split("/")[0] : "";
  if (group !== owner.group) return [];
  const namespace = owner.namespaced ? object.metadata.namespace : undefined;
  return [{ namespace, name: reference.name }];
}

export interface MappedWatchOptions<T> extends WatchOptions<T> {
  /** The keys that an object concerns. On an update both the old and the new state are asked. */
  readonly map: (object: T) => Iterable<ObjectKey>;
}

/** Objects of any kind that concern others. */
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

function pass<T>(change: Change<T>, options: MappedWatchOptions<T>, listener: WatchListener): void {
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
  change: Change<T>,
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
