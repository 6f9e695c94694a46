/** Whether two specs of a CocoonSet mean the same: amounts by value, null as if it were not there. */
import { compareQuantities, tryParseQuantity } from "@cocoon/core/quantity";

const amountLists = new Set(["limits", "requests"]);

/** Stops at the first difference; nothing is copied, because every change of a set passes here. */
export function isSameSpec(one: unknown, other: unknown): boolean {
  return isSame(one ?? undefined, other ?? undefined, "");
}

function isSame(one: unknown, other: unknown, key: string): boolean {
  if (one === other) return true;
  if (Array.isArray(one) || Array.isArray(other)) return isSameList(one, other);
  if (isRecord(one) && isRecord(other)) return isSameRecord(one, other, key);
  return key === "storage" && isSameAmount(one, other);
}

function isSameList(one: unknown, other: unknown): boolean {
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((item, index) => isSame(item, other[index], ""));
}

type Members = Readonly<Record<string, unknown>>;

function isSameRecord(one: Members, other: Members, key: string): boolean {
  const same = amountLists.has(key) ? isSameAmount : isSame;
  for (const name of Object.keys(one))
    if (!same(one[name] ?? undefined, other[name] ?? undefined, name)) return false;
  for (const name of Object.keys(other))
    if ((other[name] ?? undefined) !== undefined && (one[name] ?? undefined) === undefined) return false;
  return true;
}

function isSameAmount(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  const [left, right] = [amountOf(one), amountOf(other)];
  return left !== undefined && right !== undefined && compareQuantities(left, right) === 0;
}

function amountOf(value: unknown): ReturnType<typeof tryParseQuantity> {
  return typeof value === "string" || typeof value === "number" ? tryParseQuantity(value) : undefined;
}

function isRecord(value: unknown): value is Members {
  return typeof value === "object" && value !== null;
}
