/** Annotations as typed values: a boolean is `true` or absent, empty text is none, a new key wins over its older twin. */
export type Annotations = Readonly<Record<string, string>> | undefined;

export interface AnnotationPatch {
  readonly metadata: { readonly annotations: Readonly<Record<string, string | null>> };
}

export interface WriteOptions {
  /** Also write the keys of the older API: for pods of objects bridged from `cocoon.cis/v1alpha1`. */
  readonly legacyKeys?: boolean;
}

export function readText(annotations: Annotations, key: string, olderKey?: string): string {
  if (annotations === undefined) return "";
  return annotations[key] || (olderKey === undefined ? "" : (annotations[olderKey] ?? ""));
}

/** A key that is present decides, even when it says something other than `true`; the older one is read only when it is absent. */
export function readFlag(annotations: Annotations, key: string, olderKey?: string): boolean {
  if (annotations === undefined) return false;
  const value = annotations[key] ?? (olderKey === undefined ? undefined : annotations[olderKey]);
  return value === "true";
}

/** The patch that brings the annotations to the wanted values, or undefined when they are there already. */
export function annotationPatch(
  current: Annotations,
  wanted: Readonly<Record<string, string | null>>,
): AnnotationPatch | undefined {
  const changed = Object.entries(wanted).filter(([key, value]) => (current?.[key] ?? null) !== value);
  return changed.length === 0 ? undefined : { metadata: { annotations: Object.fromEntries(changed) } };
}
