/** Values of a strategy against their bounds. */
import { goName, type Bound, type Field } from "./slo-fields.ts";
import type { Block, SloConfig } from "./slo-config.ts";

/** Path of each field that is out of bounds, and what it must be; one text per field, sorted by path. */
export function boundTroubles({ cluster, profiles }: SloConfig): Record<string, string> {
  const blocks = [...(cluster?.blocks ?? []), ...profiles.flatMap((each) => each.blocks)];
  const troubles = blocks.flatMap((block) =>
    block.fields.flatMap((field): [string, string][] => {
      const trouble = fieldTrouble(block, field);
      return trouble === undefined ? [] : [[`${block.path}.${goName(field.json)}`, trouble]];
    }),
  );
  return Object.fromEntries(troubles.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

function fieldTrouble({ values }: Block, { json, bounds }: Field): string | undefined {
  const value = values.get(json);
  if (value === undefined) return undefined;
  const broken = bounds.find((bound) => !holds(value, bound, values));
  return broken && `${goName(json)} must be ${wording(broken)}`;
}

function holds(value: number, bound: Bound, values: ReadonlyMap<string, number>): boolean {
  if ("atLeast" in bound) return value >= bound.atLeast;
  if ("atMost" in bound) return value <= bound.atMost;
  if ("above" in bound) return value > bound.above;
  const other = values.get("aboveField" in bound ? bound.aboveField : bound.belowField);
  if (other === undefined) return false;
  return "aboveField" in bound ? value > other : value < other;
}

function wording(bound: Bound): string {
  if ("atLeast" in bound) return `${grouped(bound.atLeast)} or greater`;
  if ("atMost" in bound) return `${grouped(bound.atMost)} or less`;
  if ("above" in bound) return `greater than ${grouped(bound.above)}`;
  return "aboveField" in bound
    ? `greater than ${goName(bound.aboveField)}`
    : `less than ${goName(bound.belowField)}`;
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
