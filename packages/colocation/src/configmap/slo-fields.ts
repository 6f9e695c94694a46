/** Every field of the SLO configuration that has bounds, as tables. Field names are Koordinator's, in JSON and in Go. */

export type Bound =
  | { readonly atLeast: number }
  | { readonly atMost: number }
  | { readonly above: number }
  /** Must be greater, or less, than that other field, which then must be given as well. */
  | { readonly aboveField: string }
  | { readonly belowField: string };

export interface Field {
  readonly json: string;
  readonly type: "integer" | "number";
  readonly bounds: readonly Bound[];
}

const integer = (json: string, ...bounds: readonly Bound[]): Field => ({ json, type: "integer", bounds });
const atLeast = (n: number): Bound => ({ atLeast: n });
const percent: readonly Bound[] = [{ atLeast: 0 }, { atMost: 100 }];
const within = (low: number, high: number): readonly Bound[] => [{ atLeast: low }, { atMost: high }];

/** Two fields of which one must stay above the other; both or none. */
function pair(upper: string, lower: string, bounds: readonly Bound[]): Field[] {
  return [integer(upper, ...bounds, { aboveField: lower }), integer(lower, ...bounds, { belowField: upper })];
}

export const colocationFields: readonly Field[] = [
  integer("metricAggregateDurationSeconds", atLeast(1)),
  integer("metricReportIntervalSeconds", atLeast(1)),
  integer("cpuReclaimThresholdPercent", atLeast(0)),
  integer("memoryReclaimThresholdPercent", atLeast(0)),
  integer("degradeTimeMinutes", atLeast(1)),
  integer("updateTimeThresholdSeconds", atLeast(1)),
  { json: "resourceDiffThreshold", type: "number", bounds: [{ above: 0 }, { atMost: 1 }] },
  integer("midCPUThresholdPercent", ...percent),
  integer("midMemoryThresholdPercent", ...percent),
  integer("midUnallocatedPercent", ...percent),
  integer("midStaticCPUReservedPercent", ...percent),
  integer("midStaticMemoryReservedPercent", ...percent),
  integer("batchCPUThresholdPercent", atLeast(0)),
  integer("batchMemoryThresholdPercent", atLeast(0)),
];

export const thresholdFields: readonly Field[] = [
  integer("cpuSuppressThresholdPercent", ...percent),
  integer("cpuSuppressMinPercent", ...percent),
  ...pair("memoryEvictThresholdPercent", "memoryEvictLowerPercent", percent),
  ...pair("cpuEvictThresholdPercent", "cpuEvictLowerPercent", percent),
  ...pair("cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent", percent),
  ...pair("memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent", [{ atLeast: 0 }]),
  ...pair("cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent", [{ atLeast: 0 }]),
  integer("cpuEvictBEUsageThresholdPercent", ...percent),
  integer("cpuEvictTimeWindowSeconds", { above: 0 }),
  integer("evictEnabledPriorityThreshold"),
  integer("allocatableEvictPriorityThreshold", ...within(0, 7999)),
];

export const cpuQosFields: readonly Field[] = [
  integer("groupIdentity", ...within(-1, 2)),
  integer("schedIdle", ...within(0, 1)),
];

export const memoryQosFields: readonly Field[] = [
  integer("minLimitPercent", ...percent),
  integer("lowLimitPercent", ...percent),
  integer("throttlingPercent", ...percent),
  integer("wmarkRatio", ...percent),
  integer("wmarkScalePermill", ...within(1, 1000)),
  integer("wmarkMinAdj", ...within(-25, 50)),
  integer("priorityEnable", ...within(0, 1)),
  integer("oomKillGroup", ...within(0, 1)),
  integer("priority", ...within(0, 12)),
  integer("pageCacheLimitPercent", ...percent),
];

export const resctrlQosFields: readonly Field[] = [
  ...pair("catRangeEndPercent", "catRangeStartPercent", percent),
  integer("mbaPercent", ...percent),
];

export const cpuBurstFields: readonly Field[] = [
  integer("cpuBurstPercent", ...within(1, 10_000)),
  integer("cfsQuotaBurstPercent", atLeast(100)),
  integer("cfsQuotaBurstPeriodSeconds", atLeast(-1)),
];

export const cpuBurstPoolFields: readonly Field[] = [integer("sharePoolThresholdPercent", ...percent)];

export const systemFields: readonly Field[] = [
  integer("minFreeKbytesFactor", { above: 0 }),
  integer("watermarkScaleFactor", { above: 0 }, { atMost: 400 }),
  integer("memcgReapBackGround", ...within(0, 1)),
  integer("pageCacheLimitEnabled", ...within(0, 1)),
];

const acronyms: Readonly<Record<string, string>> = {
  cpu: "CPU",
  cfs: "CFS",
  cat: "CAT",
  mba: "MBA",
  lsr: "LSR",
  ls: "LS",
  be: "BE",
};

/** `cpuSuppressMinPercent` is `CPUSuppressMinPercent`, `beClass` is `BEClass`. */
export function goName(json: string): string {
  const head = /^[a-z]+/.exec(json)?.[0] ?? "";
  const spelled = acronyms[head] ?? `${head.slice(0, 1).toUpperCase()}${head.slice(1)}`;
  return `${spelled}${json.slice(head.length)}`;
}
