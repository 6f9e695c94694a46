/** The spec of a CocoonSet in one form, so that equal specs compare equal: amounts by value, nulls left out. */
import { canonicalQuantity, tryParseQuantity } from "@cocoon/core/quantity";

const amountLists = new Set(["limits", "requests"]);

export function normalSpec(value: unknown): unknown {
  return normal(value, "");
}

function normal(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value.map((item) => normal(item, ""));
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, member]) => member !== null && member !== undefined)
        .map(([name, member]) => [name, amountLists.has(key) ? amount(member) : normal(member, name)]),
    );
  return key === "storage" ? amount(value) : value;
}

function amount(value: unknown): unknown {
  if (typeof value !== "string" && typeof value !== "number") return value;
  const quantity = tryParseQuantity(value);
  return quantity ? canonicalQuantity({ nanos: quantity.nanos, format: "decimal" }) : value;
}
