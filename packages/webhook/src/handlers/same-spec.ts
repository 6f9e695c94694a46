/**
 * Whether two specs of a CocoonSet mean the same. Quantities are compared by value. A field that is absent, null, empty,
 * false or zero is the same, as Go programs that read and write the object leave such fields out.
 */
import { compareQuantities, tryParseQuantity } from "@cocoon/core/quantity";

const amountLists = new Set(["limits", "requests"]);

/** Stops at the first difference; nothing is copied, because every change of a set passes here. */
export function isSameSpec(one: unknown, other: unknown): boolean {
  return isSame(one ?? undefined, other ?? undefined, "");
}

function isSame(one: unknown, other: unknown, key: string): boolean {
  if (one === other) return true;
  if (key === "storage") return isSameAmount(one, other);
  if (isEmpty(one) && isEmpty(other)) return true;
  if (Array.isArray(one) || Array.isArray(other)) return isSameList(one, other);
  if (isRecord(one) && isRecord(other)) return isSameRecord(one, other, key);
  return false;
}

/** Also an object of which every field is empty. A quantity of zero is a value. */
function isEmpty(value: unknown, key = ""): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isRecord(value)) return Object.entries(value).every(([name, each]) => isEmpty(each, name));
  return key === "storage" ? (value ?? undefined) === undefined : !value;
}

function isSameList(one: unknown, other: unknown): boolean {
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((item, index) => isSame(item, other[index], ""));
}

type Members = Readonly<Record<string, unknown>>;

function isSameRecord(one: Members, other: Members, key: string): boolean {
  const same = amountLists.has(key) ? isSameAmount : isSame;
  for (const name of Object.keys({ ...one, ...other }))
    if (!same(one[name] ?? undefined, other[name] ?? undefined, name)) return false;
  return true;
}

function isSameAmount(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  const [left, right] = [parseAmount(one), parseAmount(other)];
  return left !== undefined && right !== undefined && compareQuantities(left, right) === 0;
}

function parseAmount(value: unknown): ReturnType<typeof tryParseQuantity> {
  return typeof value === "string" || typeof value === "number" ? tryParseQuantity(value) : undefined;
}

function isRecord(value: unknown): value is Members {
  return typeof value === "object" && value !== null;
}
