/**
 * The labels and annotations that a pod had before profiles changed them, noted on the pod. The API server reviews a pod again
 * when another webhook changed it; where the second answer would differ from the first, it starts from the noted state.
 */
import { tryParseJson } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, copyJson, isRecord, own, put, sortedJson, type Json } from "../json.ts";
import { beforeProfilesAnnotation, drawnAnnotation } from "../keys.ts";
import type { CompiledProfile } from "../profile-engine.ts";

const fields = ["labels", "annotations"] as const;
const ours: ReadonlySet<string> = new Set([beforeProfilesAnnotation, drawnAnnotation]);

/** Puts back what the note says, in place, and takes the note off; false when there is none. */
export function restoreOriginal(pod: Json): boolean {
  const annotations = readTexts(pod, "annotations");
  const text = own(annotations, beforeProfilesAnnotation);
  if (typeof text !== "string") return false;
  const note = tryParseJson(text);
  delete annotations[beforeProfilesAnnotation];
  if (!isRecord(note)) return true;
  for (const field of fields) {
    const before = own(note, field);
    for (const [key, value] of Object.entries(isRecord(before) ? before : {})) {
      if (typeof value === "string") put(child(child(pod, "metadata"), field), key, value);
      else if (!ours.has(key)) delete readTexts(pod, field)[key];
    }
  }
  return true;
}

export function recordOriginal(pod: Json, before: Json): void {
  const note = Object.fromEntries(fields.map((field) => [field, changedTexts(before, pod, field)] as const));
  child(child(pod, "metadata"), "annotations")[beforeProfilesAnnotation] = sortedJson(note);
}

/** Old values of what is different now; null where there was none. */
function changedTexts(before: Json, now: Json, field: (typeof fields)[number]): Json {
  const [old, texts] = [readTexts(before, field), readTexts(now, field)];
  const keys = new Set([...Object.keys(old), ...Object.keys(texts)]);
  const changed = [...keys].filter((key) => !ours.has(key) && own(old, key) !== own(texts, key));
  return Object.fromEntries(changed.map((key) => [key, own(old, key) ?? null]));
}

function readTexts(pod: Json, field: (typeof fields)[number]): Json {
  const metadata = own(pod, "metadata");
  const texts = isRecord(metadata) ? own(metadata, field) : undefined;
  return isRecord(texts) ? texts : {};
}

export interface AppliedProfiles {
  readonly applied: readonly CompiledProfile[];
  readonly matchingNow: readonly CompiledProfile[];
  readonly repeat: (pod: Json) => void;
}

/** Whether a review of the result comes to the same. */
export function isStable(pod: Json, { applied, matchingNow, repeat }: AppliedProfiles): boolean {
  const isSame = applied.length === matchingNow.length && applied.every((each) => matchingNow.includes(each));
  if (!isSame) return false;
  const derives = ({ spec }: CompiledProfile) =>
    spec.labelKeysMapping ?? spec.annotationKeysMapping ?? spec.labelSuffixes;
  if (!applied.some(derives)) return true;
  const again = copyJson(pod);
  repeat(again);
  return jsonEqual(again, pod);
}
