/** What a watch answer consists of, one JSON frame a line, and the items of a list: read and checked one by one. */
import { Fault } from "@cocoon/core";
import { readStatusObject } from "../client/errors.ts";
import { parseWithoutManagedFields } from "./managed-fields.ts";
import { getKey, keyText, type KubeObject } from "../object.ts";

export type Frame<T> =
  | ObjectFrame<T>
  | MalformedFrame
  /** `initialEnd`: everything that existed when the watch began has been sent. */
  | { readonly kind: "bookmark"; readonly version: string; readonly initialEnd: boolean }
  | { readonly kind: "error"; readonly fault: Fault };

export interface ObjectFrame<T> {
  readonly kind: "put" | "deleted";
  readonly object: T;
  readonly version: string;
}

export interface MalformedFrame {
  readonly kind: "malformed";
  readonly key: string;
  readonly cause: unknown;
  readonly gone: boolean;
  readonly version: string | undefined;
}

/** Makes a T of what the server sent, or throws: then the object is reported as malformed. */
export type ReadObject<T> = (object: KubeObject) => T;

export interface FrameContext<T> {
  readonly read: ReadObject<T>;
  readonly managedFields: boolean;
  readonly common: { readonly apiVersion: string; readonly kind: string };
  readonly what: string;
}

export function readFrame<T>(line: string | undefined, context: FrameContext<T>): Frame<T> {
  if (line === undefined) return unreadable(new Fault("tooLarge", "the event is longer than allowed"));
  let frame: WireFrame | null;
  try {
    frame = context.managedFields
      ? (JSON.parse(line) as WireFrame | null)
      : parseWithoutManagedFields<WireFrame | null>(line, (value) => [value?.object]);
  } catch (error) {
    return unreadable(error);
  }
  const type = frame?.type;
  const object = frame?.object;
  if (type === "ERROR") return { kind: "error", fault: readStatusObject(object, context.what) };
  if (type === "BOOKMARK") return bookmark(object);
  if (type === "ADDED" || type === "MODIFIED" || type === "DELETED")
    return readObject(object, { gone: type === "DELETED", read: context.read });
  return unreadable(
    new Fault("invalid", `an event has the unknown type ${JSON.stringify(type)?.slice(0, 40)}`),
  );
}

/** One page of a list. Items lack their kind. */
export function readPage<T>(text: string, context: FrameContext<T>): Page<T> {
  const list = context.managedFields
    ? (JSON.parse(text) as WireList)
    : parseWithoutManagedFields<WireList>(text, (value) => value.items ?? []);
  const resourceVersion = list.metadata?.resourceVersion;
  if (typeof resourceVersion !== "string" || resourceVersion === "")
    throw new Fault("unavailable", `${context.what}: the answer is not a list`);
  const frames = (list.items ?? []).map((item) =>
    readObject({ ...context.common, ...(item as object) }, { gone: false, read: context.read }),
  );
  return { frames, resourceVersion, continueToken: list.metadata?.continue || undefined };
}

export interface Page<T> {
  readonly frames: readonly (ObjectFrame<T> | MalformedFrame)[];
  readonly resourceVersion: string;
  readonly continueToken: string | undefined;
}

interface WireList {
  readonly metadata?: { readonly resourceVersion?: unknown; readonly continue?: string } | null;
  readonly items?: readonly unknown[] | null;
}

interface WireFrame {
  readonly type?: unknown;
  readonly object?: WireObject | null;
}

interface WireObject {
  readonly metadata?: {
    readonly name?: unknown;
    readonly resourceVersion?: unknown;
    readonly annotations?: Readonly<Record<string, unknown>> | null;
  } | null;
}

function unreadable(cause: unknown): MalformedFrame {
  return { kind: "malformed", key: "?", cause, gone: false, version: undefined };
}

function bookmark(object: WireObject | null | undefined): Frame<never> {
  const version = object?.metadata?.resourceVersion;
  if (typeof version !== "string" || version === "")
    return unreadable(new Fault("invalid", "a bookmark has no resourceVersion"));
  const initialEnd = object?.metadata?.annotations?.["k8s.io/initial-events-end"] === "true";
  return { kind: "bookmark", version, initialEnd };
}

function readObject<T>(
  object: unknown,
  { gone, read }: { readonly gone: boolean; readonly read: ReadObject<T> },
): ObjectFrame<T> | MalformedFrame {
  if (!isKubeObject(object))
    return unreadable(new Fault("invalid", "an object has no name or no resourceVersion"));
  const version = object.metadata.resourceVersion ?? "";
  try {
    return { kind: gone ? "deleted" : "put", object: read(object), version };
  } catch (cause) {
    return { kind: "malformed", key: keyText(getKey(object)), cause, gone, version };
  }
}

/** The least that makes an object one: a name, and a version to go on from. */
function isKubeObject(object: unknown): object is KubeObject {
  const metadata = (object as WireObject | null | undefined)?.metadata;
  return (
    typeof metadata?.name === "string" &&
    metadata.name !== "" &&
    typeof metadata.resourceVersion === "string" &&
    metadata.resourceVersion !== ""
  );
}

/** Cuts a stream of bytes into lines. Works on bytes, so a character cut in two between chunks does no harm. */
const newline = 0x0a;

export class LineSplitter {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #skipping = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that this chunk completes, without their newline; undefined stands for one that is too long. */
  push(chunk: Buffer): (string | undefined)[] {
    const lines: (string | undefined)[] = [];
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      lines.push(this.#complete(chunk, start, end));
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(start === 0 ? chunk : chunk.subarray(start));
    return lines;
  }

  #complete(chunk: Buffer, start: number, end: number): string | undefined {
    const tooLong = this.#skipping || this.#partBytes + end - start > this.#maxBytes;
    const parts = this.#parts;
    this.#parts = [];
    this.#partBytes = 0;
    this.#skipping = false;
    if (tooLong) return undefined;
    if (parts.length === 0) return chunk.toString("utf8", start, end);
    parts.push(chunk.subarray(start, end));
    return Buffer.concat(parts).toString("utf8");
  }

  #keep(part: Buffer): void {
    if (this.#skipping) return;
    this.#parts.push(part);
    this.#partBytes += part.length;
    if (this.#partBytes <= this.#maxBytes) return;
    this.#skipping = true; // its end is still needed, its content is not
    this.#parts = [];
  }
}
