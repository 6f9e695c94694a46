/**
 * The wish that a machine sleeps, and the two flags around it. True is written as `true`, false removes the key; a
 * patch exists only when something would change. A hand-set key of the older API counts; the new one wins, and waking
 * removes both.
 */
import {
  annotationPatch,
  readFlag,
  type AnnotationPatch,
  type Annotations,
  type WriteOptions,
} from "./annotations.ts";
import { annotation, legacyAnnotation } from "./keys.ts";

export function readHibernate(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.hibernate, legacyAnnotation.hibernate);
}

/** Restore the machine from its `hibernate` snapshot instead of booting it; stays for the pod's life. */
export function readRestoreFromHibernate(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.restoreFromHibernate);
}

/** Keep the node's own copy of the snapshot when the pod is deleted. */
export function readKeepSnapshotOnDelete(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.keepSnapshotOnDelete);
}

export function hibernatePatch(
  annotations: Annotations,
  sleep: boolean,
  options: WriteOptions = {},
): AnnotationPatch | undefined {
  if (!sleep)
    return annotationPatch(annotations, { [annotation.hibernate]: null, [legacyAnnotation.hibernate]: null });
  const older = options.legacyKeys ? { [legacyAnnotation.hibernate]: "true" } : {};
  return annotationPatch(annotations, { [annotation.hibernate]: "true", ...older });
}

export function keepSnapshotOnDeletePatch(
  annotations: Annotations,
  keep: boolean,
): AnnotationPatch | undefined {
  return annotationPatch(annotations, { [annotation.keepSnapshotOnDelete]: keep ? "true" : null });
}

/** The set's generation that the kubelet has to echo; 0 when the pod carries none that can be read. */
export function readGeneration(annotations: Annotations): number {
  const text = annotations?.[annotation.generation] ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

export function generationPatch(annotations: Annotations, generation: number): AnnotationPatch | undefined {
  return annotationPatch(annotations, { [annotation.generation]: String(generation) });
}
