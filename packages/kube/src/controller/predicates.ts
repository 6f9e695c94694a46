/** Which changes are worth a look. Predicates are pure and cheap: they run for every change of every object. */
import { jsonEqual } from "@cocoon/core";
import type { KubeObject } from "../object.ts";
import type { Change } from "./source.ts";

export type Predicate<T> = (change: Change<T>) => boolean;

/** Creations and deletions pass; an update passes when the test says so. */
export function onUpdate<T>(test: (old: T, object: T) => boolean): Predicate<T> {
  return (change) => change.kind !== "updated" || test(change.old, change.object);
}

/** The spec changed, or deletion began: status and metadata writes do not count. */
export const generationChanged: Predicate<KubeObject> = onUpdate(
  (old, object) => old.metadata.generation !== object.metadata.generation || deletionBegan(old, object),
);

export const labelsChanged: Predicate<KubeObject> = onUpdate(
  (old, object) => !jsonEqual(old.metadata.labels ?? {}, object.metadata.labels ?? {}),
);

export const annotationsChanged: Predicate<KubeObject> = onUpdate(
  (old, object) => !jsonEqual(old.metadata.annotations ?? {}, object.metadata.annotations ?? {}),
);

export const finalizersChanged: Predicate<KubeObject> = onUpdate(
  (old, object) => !jsonEqual(old.metadata.finalizers ?? [], object.metadata.finalizers ?? []),
);

export const deletionStarted: Predicate<KubeObject> = onUpdate(deletionBegan);

function deletionBegan(old: KubeObject, object: KubeObject): boolean {
  return old.metadata.deletionTimestamp === undefined && object.metadata.deletionTimestamp !== undefined;
}

export function anyOf<T>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.some((predicate) => predicate(change));
}

export function allOf<T>(...predicates: readonly Predicate<T>[]): Predicate<T> {
  return (change) => predicates.every((predicate) => predicate(change));
}
