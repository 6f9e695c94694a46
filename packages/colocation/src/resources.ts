/** Resource lists: names to quantities, added and compared exactly. */
import {
  addQuantities,
  canonicalQuantity,
  compareQuantities,
  createQuantity,
  tryParseQuantity,
  type Quantity,
} from "@cocoon/core/quantity";
import { isRecord, own, sortedJson, undecodable, type ReadonlyJson } from "./json.ts";

export type Resources = ReadonlyMap<string, Quantity>;

export const zero: Quantity = createQuantity(0);
const none: Resources = new Map();

/** A field that may be absent; a `badRequest` fault names a quantity that is none. */
export function readResources(object: ReadonlyJson | undefined, key: string, path: string): Resources {
  const value = object === undefined ? undefined : own(object, key);
  if (value === undefined || value === null) return none;
  if (!isRecord(value)) throw undecodable(path, "an object of quantities");
  return parseResources(value, path);
}

export function parseResources(value: ReadonlyJson, path: string): Resources {
  const list = new Map<string, Quantity>();
  for (const [name, text] of Object.entries(value)) {
    const quantity =
      typeof text === "string" || typeof text === "number" ? tryParseQuantity(text) : undefined;
    if (!quantity) throw undecodable(`${path}[${name}]`, "a quantity such as 500m, 2 or 20Gi");
    list.set(name, quantity);
  }
  return list;
}

export function writeResources(resources: Resources): Record<string, string> {
  return Object.fromEntries([...resources].map(([name, quantity]) => [name, canonicalQuantity(quantity)]));
}

export function resourcesText(resources: Resources): string {
  return sortedJson(writeResources(resources));
}

export function amount(resources: Resources, name: string): Quantity {
  return resources.get(name) ?? zero;
}

type Combine = (one: Quantity, other: Quantity) => Quantity;

function combine(lists: Iterable<Resources>, how: Combine): Map<string, Quantity> {
  const combined = new Map<string, Quantity>();
  for (const list of lists)
    for (const [name, quantity] of list) {
      const before = combined.get(name);
      combined.set(name, before ? how(before, quantity) : quantity);
    }
  return combined;
}

export function sum(lists: Iterable<Resources>): Map<string, Quantity> {
  return combine(lists, addQuantities);
}

export function largest(lists: Iterable<Resources>): Map<string, Quantity> {
  return combine(lists, (one, other) => (compareQuantities(other, one) > 0 ? other : one));
}

/** The smaller amount of each resource; one that is missing somewhere counts as zero. */
export function smallest(left: Resources, right: Resources): Map<string, Quantity> {
  const least = new Map<string, Quantity>();
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    const [one, other] = [amount(left, name), amount(right, name)];
    least.set(name, compareQuantities(one, other) < 0 ? one : other);
  }
  return least;
}

/** Names whose amount on the left is more than on the right; absent counts as zero. */
export function exceeding(left: Resources, right: Resources): string[] {
  return [...left]
    .filter(([name, quantity]) => compareQuantities(quantity, amount(right, name)) > 0)
    .map(([name]) => name);
}
