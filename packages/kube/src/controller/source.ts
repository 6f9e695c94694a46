/**
 * Where a controller gets its objects from: a cache, seen through the few things that are needed here.
 *
 * A source calls its listeners in the same turn in which `get` begins to answer with the new object, so that nobody
 * ever hears of a change that the source does not show yet.
 */
import type { KubeObject, ObjectKey } from "../object.ts";

export type Change<T> =
  /** `initial`: it was there when the listener came or when the first list arrived; nothing happened just now. */
  | { readonly kind: "added"; readonly object: T; readonly initial: boolean }
  | { readonly kind: "updated"; readonly old: T; readonly object: T }
  /** `object` is the last state that is known. */
  | { readonly kind: "deleted"; readonly object: T };

export interface Source<T extends KubeObject> {
  get(key: ObjectKey): T | undefined;
  list(): Iterable<T>;
  /** Resolves when the first list is in. */
  synced(options: { readonly signal: AbortSignal }): Promise<void>;
  /** Tells of everything that is there now, then of every change, until disposed. The listener must not throw. */
  subscribe(listener: (change: Change<T>) => void): Disposable;
  /**
   * Everything up to this version of the collection has been taken in: from the newest list, watch event or
   * bookmark. Undefined before the first list.
   */
  readonly resourceVersion: string | undefined;
}
