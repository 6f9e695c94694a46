/** JSON as Go's decoder takes it into a struct: null is absent, names match in any case, unknown fields are ignored. */
import { tryParseDuration } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import { isRecord, type ReadonlyJson } from "../json.ts";

export type Bound =
  | { readonly atLeast: number }
  | { readonly atMost: number }
  | { readonly above: number }
  /** Must be greater, or less, than that other field, which then must be given as well. */
  | { readonly aboveField: string }
  | { readonly belowField: string };

/** A number with bounds. `within` is the embedded Go struct that messages name before the field. */
export interface BoundedNumber {
  readonly number: "int64" | "float64";
  readonly bounds: readonly Bound[];
  readonly within?: string;
}

type Scalar = "bool" | "string" | "int64" | "float64" | "quantity" | "duration" | "intOrString" | "any";

export type GoType =
  | Scalar
  | BoundedNumber
  | { readonly list: GoType }
  | { readonly map: GoType }
  | { readonly fields: GoFields };

export type GoFields = Readonly<Record<string, GoType>>;

/** Go takes a field's name in any case, an exact one first. */
export function fieldIn(object: ReadonlyJson, name: string): unknown {
  if (Object.hasOwn(object, name)) return object[name] ?? undefined;
  const key = Object.keys(object).find((each) => each.toLowerCase() === name.toLowerCase());
  return key === undefined ? undefined : (object[key] ?? undefined);
}

/** Why a value does not have the type; undefined when it has. `at` is the path so far. */
export function findTypeMismatch(value: unknown, type: GoType, at: string): string | undefined {
  if (value === undefined || value === null || type === "any") return undefined;
  if (typeof type === "string") return isScalar(value, type) ? undefined : mismatch(value, at, type);
  if ("number" in type) return findTypeMismatch(value, type.number, at);
  if ("list" in type) {
    if (!Array.isArray(value)) return mismatch(value, at, "list");
    return findFirst(value.map((item: unknown, index) => [`${at}[${index}]`, item, type.list]));
  }
  if (!isRecord(value)) return mismatch(value, at, "object");
  const prefix = at === "" ? "" : `${at}.`;
  const byName = new Map(
    Object.entries("map" in type ? {} : type.fields).map(([name, each]) => [name.toLowerCase(), each]),
  );
  const unnamed = "map" in type ? type.map : "any";
  return findFirst(
    Object.entries(value).map(([name, item]) => [
      `${prefix}${name}`,
      item,
      byName.get(name.toLowerCase()) ?? unnamed,
    ]),
  );
}

function findFirst(
  members: readonly (readonly [at: string, value: unknown, type: GoType])[],
): string | undefined {
  for (const [at, value, type] of members) {
    const found = findTypeMismatch(value, type, at);
    if (found !== undefined) return found;
  }
  return undefined;
}

const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number";

/** What a scalar is called in messages, and which values are one. */
const scalars: Readonly<Record<Exclude<Scalar, "any">, readonly [string, (value: unknown) => boolean]>> = {
  bool: ["true or false", (value) => typeof value === "boolean"],
  string: ["a string", isText],
  int64: ["a whole number", Number.isInteger],
  float64: ["a number", isNumber],
  quantity: [
    "a quantity such as 50M",
    (value) => (isText(value) || isNumber(value)) && tryParseQuantity(value) !== undefined,
  ],
  duration: ["a duration such as 5m", (value) => isText(value) && tryParseDuration(value) !== undefined],
  intOrString: [
    "a whole number or a string",
    (value) => isText(value) || (Number.isInteger(value) && Math.abs(Number(value)) < 2 ** 31),
  ],
};

function isScalar(value: unknown, type: Exclude<Scalar, "any">): boolean {
  return scalars[type][1](value);
}

function mismatch(value: unknown, at: string, type: Exclude<Scalar, "any"> | "list" | "object"): string {
  const found = Array.isArray(value) || isRecord(value) ? "" : `, not ${JSON.stringify(value).slice(0, 64)}`;
  const wanted = type === "list" ? "a list" : type === "object" ? "an object" : scalars[type][0];
  return `${at} must be ${wanted}${found}`;
}

/** Go path of each number that is out of its bounds, and what it must be; lists are not looked into. */
export function* findBoundProblems(
  object: ReadonlyJson,
  fields: GoFields,
  path: string,
): Generator<[path: string, problem: string]> {
  for (const [json, type] of Object.entries(fields)) {
    const value = typeof type === "string" ? undefined : fieldIn(object, json);
    if (value === undefined || typeof type === "string") continue;
    if ("fields" in type && isRecord(value))
      yield* findBoundProblems(value, type.fields, `${path}.${goName(json)}`);
    if (!("bounds" in type) || !isNumber(value)) continue;
    const broken = type.bounds.find((bound) => !holds(value, bound, object));
    const parent = type.within === undefined ? path : `${path}.${type.within}`;
    if (broken) yield [`${parent}.${goName(json)}`, `${goName(json)} must be ${describeBound(broken)}`];
  }
}

function holds(value: number, bound: Bound, object: ReadonlyJson): boolean {
  if ("atLeast" in bound) return value >= bound.atLeast;
  if ("atMost" in bound) return value <= bound.atMost;
  if ("above" in bound) return value > bound.above;
  const other = fieldIn(object, "aboveField" in bound ? bound.aboveField : bound.belowField);
  return isNumber(other) && ("aboveField" in bound ? value > other : value < other);
}

function describeBound(bound: Bound): string {
  const grouped = (value: number) => value.toLocaleString("en-US");
  if ("atLeast" in bound) return `${grouped(bound.atLeast)} or greater`;
  if ("atMost" in bound) return `${grouped(bound.atMost)} or less`;
  if ("above" in bound) return `greater than ${grouped(bound.above)}`;
  return "aboveField" in bound
    ? `greater than ${goName(bound.aboveField)}`
    : `less than ${goName(bound.belowField)}`;
}

const acronyms: ReadonlySet<string> = new Set(["cpu", "cfs", "cat", "mba", "lsr", "ls", "be"]);

/** `cpuSuppressMinPercent` is `CPUSuppressMinPercent`, `beClass` is `BEClass`. */
export function goName(json: string): string {
  const head = /^[a-z]+/.exec(json)?.[0] ?? "";
  const spelled = acronyms.has(head)
    ? head.toUpperCase()
    : `${head.slice(0, 1).toUpperCase()}${head.slice(1)}`;
  return `${spelled}${json.slice(head.length)}`;
}
