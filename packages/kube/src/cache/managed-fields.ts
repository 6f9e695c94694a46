/**
 * Parsing objects without their managed fields: nearly half of a pod's text, and no consumer reads them.
 *
 * The cut is a verified guess: each list is replaced by a mark, and when the marks are not found exactly where the objects have
 * their managed fields, everything is parsed as it came.
 */
import { randomBytes } from "node:crypto";

const key = '"managedFields":';
const start = `${key}[{`;
/** No other writer can have produced it. */
const mark = randomBytes(9).toString("base64url");

/** Parses, and takes the managed fields from the objects that `getObjects` finds in the value. */
export function parseWithoutManagedFields<V>(text: string, getObjects: (value: V) => readonly unknown[]): V {
  const cut = cutOut(text);
  if (cut.count > 0) {
    const value = tryParse(cut.text) as V | undefined;
    if (value !== undefined && takeMarks(getObjects(value)) === cut.count) return value;
  }
  const value = JSON.parse(text) as V;
  for (const object of getObjects(value)) dropManagedFields(object);
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
    if (readMetadata(object)?.managedFields === mark) found += 1;
    dropManagedFields(object);
  }
  return found;
}

function dropManagedFields(object: unknown): void {
  const metadata = readMetadata(object);
  if (metadata?.managedFields !== undefined) delete metadata.managedFields;
}

/** The objects are ours until they are handed out. */
type OwnMetadata = { managedFields?: unknown } | null | undefined;

function readMetadata(object: unknown): OwnMetadata {
  return (object as { metadata?: OwnMetadata } | null | undefined)?.metadata;
}
