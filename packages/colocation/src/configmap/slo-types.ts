/** The Go structs that the keys of the SLO configuration become, with the bounds of their fields. Names are Koordinator's. */
import { goName, type Bound, type BoundedNumber, type GoFields, type GoType } from "./go-types.ts";

const integer = (...bounds: readonly Bound[]): BoundedNumber => ({ number: "int64", bounds });
const atLeast = (low: number) => integer({ atLeast: low });
const above = (low: number) => integer({ above: low });
const range = (low: number, high: number) => integer({ atLeast: low }, { atMost: high });
const percent = range(0, 100);

/** Two fields of which one must stay above the other; both or none. */
function pair(upper: string, lower: string, { bounds }: BoundedNumber = percent): GoFields {
  return {
    [upper]: integer(...bounds, { aboveField: lower }),
    [lower]: integer(...bounds, { belowField: upper }),
  };
}

function embed(within: string, fields: Readonly<Record<string, GoType>>): GoFields {
  const entries = Object.entries(fields).map(([name, type]) => [
    name,
    typeof type === "object" && "bounds" in type ? { ...type, within } : type,
  ]);
  return Object.fromEntries(entries) as GoFields;
}

const colocationStrategy: GoFields = {
  enable: "bool",
  metricAggregateDurationSeconds: atLeast(1),
  metricReportIntervalSeconds: atLeast(1),
  metricAggregatePolicy: { fields: { durations: { list: "duration" } } },
  metricMemoryCollectPolicy: "string",
  cpuReclaimThresholdPercent: atLeast(0),
  cpuCalculatePolicy: "string",
  memoryReclaimThresholdPercent: atLeast(0),
  memoryCalculatePolicy: "string",
  degradeTimeMinutes: atLeast(1),
  updateTimeThresholdSeconds: atLeast(1),
  resourceDiffThreshold: { number: "float64", bounds: [{ above: 0 }, { atMost: 1 }] },
  midCPUThresholdPercent: percent,
  midMemoryThresholdPercent: percent,
  midUnallocatedPercent: percent,
  midStaticCPUReservedPercent: percent,
  midStaticMemoryReservedPercent: percent,
  midReclaimMode: "string",
  batchCPUThresholdPercent: atLeast(0),
  batchMemoryThresholdPercent: atLeast(0),
  extensions: { map: "any" },
};

const thresholdStrategy: GoFields = {
  enable: "bool",
  cpuSuppressThresholdPercent: percent,
  cpuSuppressMinPercent: percent,
  cpuSuppressPolicy: "string",
  ...pair("memoryEvictThresholdPercent", "memoryEvictLowerPercent"),
  ...pair("cpuEvictThresholdPercent", "cpuEvictLowerPercent"),
  ...pair("cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent"),
  ...pair("memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent", atLeast(0)),
  ...pair("cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent", atLeast(0)),
  cpuEvictBEUsageThresholdPercent: percent,
  cpuEvictTimeWindowSeconds: above(0),
  cpuEvictPolicy: "string",
  evictEnabledPriorityThreshold: "int64",
  allocatableEvictPriorityThreshold: range(0, 7999),
};

const cpuQos: GoFields = { groupIdentity: range(-1, 2), schedIdle: range(0, 1), coreExpeller: "bool" };

const memoryQos: GoFields = {
  minLimitPercent: percent,
  lowLimitPercent: percent,
  throttlingPercent: percent,
  wmarkRatio: percent,
  wmarkScalePermill: range(1, 1000),
  wmarkMinAdj: range(-25, 50),
  priorityEnable: range(0, 1),
  oomKillGroup: range(0, 1),
  priority: range(0, 12),
  pageCacheLimitPercent: percent,
};

const resctrlQos: GoFields = {
  ...pair("catRangeEndPercent", "catRangeStartPercent"),
  mbaPercent: percent,
};

const readWrite = (name: string) => [`read${name}`, `write${name}`];
const ioCounters = [
  ...["IOPS", "BPS", "Latency", "LatencyPercent"].flatMap(readWrite),
  ...["BPS", "SeqIOPS", "RandIOPS"].flatMap((name) => [`modelRead${name}`, `modelWrite${name}`]),
  "ioWeightPercent",
];
const ioConfig = {
  enableUserModel: "bool",
  ...Object.fromEntries(ioCounters.map((name) => [name, "int64"])),
};
const block = { name: "string", type: "string", ioCfg: { fields: ioConfig as GoFields } } as const;

const qosParts: Readonly<Record<string, GoFields>> = {
  cpuQOS: cpuQos,
  memoryQOS: memoryQos,
  resctrlQOS: resctrlQos,
  blkioQOS: { blocks: { list: { fields: block } } },
  networkQOS: {
    ingressRequest: "intOrString",
    ingressLimit: "intOrString",
    egressRequest: "intOrString",
    egressLimit: "intOrString",
  },
};
const qosClass: GoType = {
  fields: Object.fromEntries(
    Object.entries(qosParts).map(([name, fields]) => [
      name,
      { fields: { enable: "bool", ...embed(goName(name), fields) } },
    ]),
  ),
};

const qosStrategy: GoFields = {
  policies: { fields: { cpuPolicy: "string", netQOSPolicy: "string" } },
  lsrClass: qosClass,
  lsClass: qosClass,
  beClass: qosClass,
  systemClass: qosClass,
  cgroupRoot: qosClass,
};

const systemStrategy: GoFields = {
  minFreeKbytesFactor: above(0),
  watermarkScaleFactor: integer({ above: 0 }, { atMost: 400 }),
  memcgReapBackGround: range(0, 1),
  pageCacheLimitEnabled: range(0, 1),
  schedGroupIdentityEnabled: "int64",
  schedIdleSaverWmark: "int64",
  schedFeatures: { map: "bool" },
  totalNetworkBandwidth: "quantity",
};

const cpuBurstStrategy: GoFields = {
  policy: "string",
  ...embed("CPUBurstConfig", {
    cpuBurstPercent: range(1, 10_000),
    cfsQuotaBurstPercent: atLeast(100),
    cfsQuotaBurstPeriodSeconds: atLeast(-1),
  }),
  sharePoolThresholdPercent: percent,
};

const expression: GoFields = { key: "string", operator: "string", values: { list: "string" } };
const profile: GoFields = {
  name: "string",
  nodeSelector: {
    fields: { matchLabels: { map: "string" }, matchExpressions: { list: { fields: expression } } },
  },
};

interface Shape {
  readonly title: string;
  /** What the names of its Go structs begin with. */
  readonly go: string;
  readonly strategy: GoFields;
}

export const shapes = {
  "colocation-config": { title: "colocation", go: "Colocation", strategy: colocationStrategy },
  "resource-threshold-config": {
    title: "resourceThreshold",
    go: "ResourceThreshold",
    strategy: thresholdStrategy,
  },
  "resource-qos-config": { title: "ResourceQOS", go: "ResourceQOS", strategy: qosStrategy },
  "system-config": { title: "System", go: "System", strategy: systemStrategy },
  "cpu-burst-config": { title: "CpuBurst", go: "CPUBurst", strategy: cpuBurstStrategy },
} as const satisfies Readonly<Record<string, Shape>>;

export type SloKey = keyof typeof shapes;

/** Where the strategies are in a document; the cluster's may be the document itself. */
export function getPlaces(key: SloKey): { readonly cluster?: string; readonly profiles: string } {
  return key === "colocation-config"
    ? { profiles: "nodeConfigs" }
    : { cluster: "clusterStrategy", profiles: "nodeStrategies" };
}

/** The type of the whole document. */
export function getDocumentType(key: SloKey): GoType {
  const { strategy } = shapes[key];
  const { cluster, profiles } = getPlaces(key);
  const list: GoType = { list: { fields: { ...profile, ...strategy } } };
  return { fields: { ...(cluster ? { [cluster]: { fields: strategy } } : strategy), [profiles]: list } };
}
