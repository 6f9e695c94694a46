/**
 * The labels and annotations that a pod had before profiles changed them, noted on the pod. The API server asks about a
 * pod again when another webhook changed it after us; selectors are judged on the labels that came, and values may be
 * derived from values that a profile replaced. So where the second answer would differ from the first, the first state is
 * noted, and the second answer starts from it. Whoever writes such a note himself gets what a pod with those labels
 * would get: nothing that he could not have had by writing the labels.
 */
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, copyJson, isRecord, own, put, sortedJson, tryParseJson, type Json } from "../json.ts";
import { beforeProfilesAnnotation, drawnAnnotation } from "../keys.ts";
import type { CompiledProfile } from "../profile-engine.ts";

const fields = ["labels", "annotations"] as const;
const ours: ReadonlySet<string> = new Set([beforeProfilesAnnotation, drawnAnnotation]);

/** Puts back what the note says, in place, and takes the note off; false when there is none. */
export function restore(pod: Json): boolean {
  const annotations = textsOf(pod, "annotations");
  const text = own(annotations, beforeProfilesAnnotation);
  if (typeof text !== "string") return false;
  const note = tryParseJson(text)?.value;
  delete annotations[beforeProfilesAnnotation];
  if (!isRecord(note)) return true;
  for (const field of fields) {
    const before = own(note, field);
    for (const [key, value] of Object.entries(isRecord(before) ? before : {})) {
      if (typeof value === "string") put(child(child(pod, "metadata"), field), key, value);
      else if (!ours.has(key)) delete textsOf(pod, field)[key];
    }
  }
  return true;
}

/** Notes how the pod was before, in place. */
export function noteBefore(pod: Json, before: Json): void {
  const note = Object.fromEntries(fields.map((field) => [field, changedTexts(before, pod, field)] as const));
  child(child(pod, "metadata"), "annotations")[beforeProfilesAnnotation] = sortedJson(note);
}

/** Old values of what is different now; null where there was none. */
function changedTexts(before: Json, now: Json, field: (typeof fields)[number]): Json {
  const [old, texts] = [textsOf(before, field), textsOf(now, field)];
  const keys = new Set([...Object.keys(old), ...Object.keys(texts)]);
  const changed = [...keys].filter((key) => !ours.has(key) && own(old, key) !== own(texts, key));
  return Object.fromEntries(changed.map((key) => [key, own(old, key) ?? null]));
}

function textsOf(pod: Json, field: (typeof fields)[number]): Json {
  const metadata = own(pod, "metadata");
  const texts = isRecord(metadata) ? own(metadata, field) : undefined;
  return isRecord(texts) ? texts : {};
}

export interface Judged {
  readonly applied: readonly CompiledProfile[];
  /** Those that would match the pod as it is now. */
  readonly matchingNow: readonly CompiledProfile[];
  /** Does to the pod what was done to it, once more. */
  readonly repeat: (pod: Json) => void;
}

/** Whether asking about the result comes to the same. */
export function isSettled(pod: Json, { applied, matchingNow, repeat }: Judged): boolean {
  const isSame = applied.length === matchingNow.length && applied.every((each) => matchingNow.includes(each));
  if (!isSame) return false;
  const derives = ({ spec }: CompiledProfile) =>
    spec.labelKeysMapping ?? spec.annotationKeysMapping ?? spec.labelSuffixes;
  if (!applied.some(derives)) return true;
  const again = copyJson(pod);
  repeat(again);
  return jsonEqual(again, pod);
}
