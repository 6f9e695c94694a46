/** What Koordinator leaves unchecked, behind a gate: words that must be one of a list, and the three other keys. */
import { getErrorMessage } from "@cocoon/core";
import { isRecord, type ReadonlyJson } from "../json.ts";
import { fieldIn } from "./go-types.ts";
import type { SloConfig, Strategy } from "./slo-config.ts";

const words: Readonly<Record<string, readonly string[]>> = {
  metricMemoryCollectPolicy: ["usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache"],
  cpuCalculatePolicy: ["usage", "maxUsageRequest"],
  memoryCalculatePolicy: ["usage", "request", "maxUsageRequest"],
  midReclaimMode: ["static"],
  cpuSuppressPolicy: ["cpuset", "cfsQuota"],
  cpuEvictPolicy: ["evictByRealLimit", "evictByAllocatable"],
  policy: ["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"],
};

export function findWordProblems({ cluster, profiles }: SloConfig): string[] {
  const strategies: readonly Strategy[] = [...(cluster ? [cluster] : []), ...profiles];
  return strategies.flatMap(({ raw }) =>
    Object.entries(words).flatMap(([field, allowed]) => {
      const value = fieldIn(raw, field);
      if (value === undefined || (typeof value === "string" && allowed.includes(value))) return [];
      return [`${field} must be one of ${allowed.join(", ")}`];
    }),
  );
}

interface RatioKey {
  readonly key: string;
  readonly find: (document: ReadonlyJson) => readonly (readonly [string, unknown])[];
  readonly low: number;
  readonly high: number;
}

const ratioFields = [
  "baseRatio",
  "hyperThreadEnabledRatio",
  "turboEnabledRatio",
  "hyperThreadTurboEnabledRatio",
];

const ratioKeys: readonly RatioKey[] = [
  { key: "cpu-normalization-config", find: normalizationRatios, low: 1, high: 5 },
  {
    key: "resource-amplification-config",
    find: (strategy) => {
      const ratios = fieldIn(strategy, "resourceAmplificationRatio");
      return isRecord(ratios) ? Object.entries(ratios) : [];
    },
    low: 1,
    high: Number.MAX_VALUE,
  },
];

function normalizationRatios(strategy: ReadonlyJson): readonly (readonly [string, unknown])[] {
  const models = fieldIn(strategy, "ratioModel");
  const own: [string, unknown][] = [["defaultRatio", fieldIn(strategy, "defaultRatio")]];
  const perModel = Object.entries(isRecord(models) ? models : {}).flatMap(([model, ratios]) =>
    isRecord(ratios)
      ? ratioFields.map((field): [string, unknown] => [
          `ratioModel.${model}.${field}`,
          fieldIn(ratios, field),
        ])
      : [],
  );
  return [...own, ...perModel].filter(([, value]) => value !== undefined);
}

/** Of the keys that have no bounds upstream: parse, and ratios the controllers would not take. */
export function findOtherKeyProblems(key: string, text: string): string[] {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return [`${key}: ${getErrorMessage(error)}`];
  }
  if (!isRecord(document)) return [`${key}: the value must be a JSON object`];
  const known = ratioKeys.find((each) => each.key === key);
  if (!known) return [];
  const nodes = fieldIn(document, "nodeConfigs");
  const strategies = [document, ...(Array.isArray(nodes) ? nodes.filter(isRecord) : [])];
  return strategies.flatMap((strategy) =>
    known
      .find(strategy)
      .filter(([, value]) => typeof value !== "number" || value < known.low || value > known.high)
      .map(([name]) => `${key}: ${name} must be ${known.high > 5 ? "1 or greater" : "from 1 to 5"}`),
  );
}

export const otherSloKeys = [
  "host-application-config",
  "cpu-normalization-config",
  "resource-amplification-config",
] as const;
