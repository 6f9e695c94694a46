/**
 * Parsing objects without their managed fields. Those are nearly half of a pod's text and become a thousand small
 * objects that nobody reads; cutting them out of the text before it is parsed saves half the time and most garbage.
 *
 * The cut is a guess that is verified: each list of managed fields is replaced by a mark, and when the marks are not
 * found exactly where the objects have their managed fields, or the text is no longer JSON, everything is parsed as
 * it came. So text that merely looks like managed fields (an embedded object, a strange key) does no harm.
 */
import { randomBytes } from "node:crypto";

const key = '"managedFields":';
const start = `${key}[{`;
/** Nobody else can have written it. */
const mark = randomBytes(9).toString("base64url");

/** Parses, and takes the managed fields from the objects that `objectsOf` finds in the value. */
export function parseWithoutManagedFields<V>(text: string, objectsOf: (value: V) => readonly unknown[]): V {
  const cut = cutOut(text);
  if (cut.count > 0) {
    const value = tryParse(cut.text) as V | undefined;
    if (value !== undefined && takeMarks(objectsOf(value)) === cut.count) return value;
  }
  const value = JSON.parse(text) as V;
  for (const object of objectsOf(value)) dropManagedFields(object);
  return value;
}

function cutOut(text: string): { readonly text: string; readonly count: number } {
  const pieces: string[] = [];
  let from = 0;
  for (let at = text.indexOf(start); at >= 0; at = text.indexOf(start, from)) {
    // The entries are objects without lists in them, so the first bracket is the end.
    const end = text.indexOf("]", at);
    if (text[end - 1] !== "}") return { text, count: 0 };
    pieces.push(text.slice(from, at + key.length));
    from = end + 1;
  }
  const count = pieces.length;
  if (count === 0) return { text, count };
  pieces.push(text.slice(from));
  return { text: pieces.join(`"${mark}"`), count };
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the guess was wrong; the caller parses the whole text
  }
}

function takeMarks(objects: readonly unknown[]): number {
  let found = 0;
  for (const object of objects) {
    if (metadataOf(object)?.managedFields === mark) found += 1;
    dropManagedFields(object);
  }
  return found;
}

function dropManagedFields(object: unknown): void {
  const metadata = metadataOf(object);
  if (metadata?.managedFields !== undefined) delete metadata.managedFields;
}

/** The objects are ours until they are handed out. */
type OwnMetadata = { managedFields?: unknown } | null | undefined;

function metadataOf(object: unknown): OwnMetadata {
  return (object as { metadata?: OwnMetadata } | null | undefined)?.metadata;
}
