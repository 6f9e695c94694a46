/** How far a node's cpu and memory are stretched: the annotations, and the arithmetic. */
import { tryParseJson } from "@cocoon/core";
import { quantityMillis, type Quantity } from "@cocoon/core/quantity";
import { isRecord } from "../json.ts";
import { ratioAnnotation } from "../keys.ts";
import { parseResources, type Resources } from "../resources.ts";

export type Ratios = ReadonlyMap<string, number>;

export const amplified = ["cpu", "memory"] as const;

/** The ratios, or why they are none. JSON null counts as no ratio. */
export function readRatios(text: string): { readonly ratios: Ratios } | { readonly problem: string } {
  const value = tryParseJson(text);
  const wanted = `annotation ${ratioAnnotation} must be a JSON object of numbers such as {"cpu":1.5}`;
  if (value === null) return { ratios: new Map() };
  if (!isRecord(value)) return { problem: wanted };
  const ratios = new Map<string, number>();
  for (const [name, ratio] of Object.entries(value)) {
    if (ratio === null) continue;
    if (typeof ratio !== "number" || !Number.isFinite(ratio)) return { problem: `${wanted}; ${name} is not` };
    ratios.set(name, ratio);
  }
  return { ratios };
}

/** The base that was written down; undefined for JSON null, a text for what cannot be read. */
export function readRaw(text: string): Resources | undefined | string {
  const value = tryParseJson(text);
  if (value === undefined) return "is not JSON";
  if (value === null) return undefined;
  if (!isRecord(value)) return "is not a JSON object of quantities";
  try {
    return parseResources(value, "it");
  } catch {
    return "is not a JSON object of quantities";
  }
}

const most = 2n ** 63n - 1n;

/** Truncated to thousandths, in the format of the base; undefined when the product is beyond what a quantity holds. */
export function amplify(base: Quantity, ratio: number): Quantity | undefined {
  const product = Math.trunc(Number(quantityMillis(base)) * ratio);
  if (!Number.isFinite(product)) return undefined;
  const millis = BigInt(product);
  if (millis > most || millis < -most) return undefined;
  return { nanos: millis * 1_000_000n, format: base.format };
}
