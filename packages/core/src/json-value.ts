/** JSON values as `JSON.stringify` would send them: an `undefined` property is absent. `__proto__` is a key like any other. */
import { Fault } from "./fault.ts";

export type JsonRecord = Readonly<Record<string, unknown>>;
export type JsonKind = "object" | "array" | "scalar";

/** Deeper documents are refused with a clear fault, long before the stack would overflow. */
export const maxJsonDepth = 1_000;

export function jsonKind(value: unknown): JsonKind {
  if (value === null || typeof value === "string" || typeof value === "boolean") return "scalar";
  if (typeof value === "number" && Number.isFinite(value)) return "scalar";
  if (Array.isArray(value)) return "array";
  if (typeof value === "object" && isPlain(value)) return "object";
  throw new Fault("invalid", `${describe(value)} is not a JSON value`);
}

export function isJsonRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value) && isPlain(value);
}

export function isJsonArray(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

/** Documents parsed in another realm (a worker's vm context) have another Object.prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function describe(value: unknown): string {
  if (typeof value === "object" && value !== null) return `an instance of ${value.constructor.name}`;
  return typeof value === "number" ? String(value) : `a value of type ${typeof value}`;
}

export function ownProperty(object: JsonRecord, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Sets an own property of an object that is still being built; `__proto__` does not become the prototype. */
export function setOwnProperty(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

export function withProperty(object: JsonRecord, key: string, value: unknown): JsonRecord {
  const copy = { ...object };
  setOwnProperty(copy, key, value);
  return copy;
}

export function withoutProperty(object: JsonRecord, key: string): JsonRecord {
  const copy: Record<string, unknown> = { ...object };
  delete copy[key];
  return copy;
}

export function definedKeys(object: JsonRecord): string[] {
  return Object.keys(object).filter((key) => object[key] !== undefined);
}

export function assertDepth(depth: number): void {
  if (depth > maxJsonDepth)
    throw new Fault("invalid", `the document is nested deeper than ${maxJsonDepth} levels`);
}

/** Equal as JSON: the order of properties does not matter, `undefined` properties do not count, 0 equals -0. */
export function jsonEqual(left: unknown, right: unknown, depth = 0): boolean {
  if (left === right) return true;
  assertDepth(depth);
  const kind = jsonKind(left);
  if (kind !== jsonKind(right) || kind === "scalar") return false;
  if (isJsonArray(left) && isJsonArray(right))
    return (
      left.length === right.length &&
      left.every((item, index) => jsonEqual(item ?? null, right[index] ?? null, depth + 1))
    );
  if (!isJsonRecord(left) || !isJsonRecord(right)) return false;
  const keys = definedKeys(left);
  if (keys.length !== definedKeys(right).length) return false;
  return keys.every((key) => {
    const other = ownProperty(right, key);
    return other !== undefined && jsonEqual(left[key], other, depth + 1);
  });
}

/** JSON pointers (RFC 6901): `/metadata/annotations/example.com~1key`. A pointer is handled as its list of tokens. */
export interface JsonPatchOperation {
  readonly op: "add" | "remove" | "replace" | "test";
  readonly path: string;
  readonly value?: unknown;
}

export type PointerTokens = readonly string[];

export function formatPointer(tokens: PointerTokens): string {
  return tokens.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

export function parsePointer(pointer: string): string[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/"))
    throw new Fault("invalid", `JSON pointer "${pointer}" must be empty or begin with "/"`);
  return pointer.slice(1).split("/").map(unescapeToken);
}

function unescapeToken(token: string): string {
  if (/~(?![01])/.test(token))
    throw new Fault("invalid", `JSON pointer token "${token}": "~" must be followed by 0 or 1`);
  // "~01" is the text "~1": the slashes come first, the tildes last.
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** The array index a token names, `-` being the one after the last; undefined when it names none. */
export function tryArrayIndex(token: string, length: number): number | undefined {
  if (token === "-") return length;
  if (!/^(?:0|[1-9][0-9]{0,14})$/.test(token)) return undefined;
  return Number(token);
}
