/** Every row about the SLO configuration, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Node } from "@cocoon/kube";
import { startTestWebhooks, type TestWebhooks, type TestWebhooksOptions } from "../testing/webhook-server.ts";
import { goName } from "./go-types.ts";

const on = "ConfigMapValidatingWebhook=true";
const map = (data: Record<string, unknown>, name = "slo-controller-config") => ({
  metadata: { name, namespace: "koordinator-system" },
  data: Object.fromEntries(
    Object.entries(data).map(([key, value]) => [
      key,
      typeof value === "string" ? value : JSON.stringify(value),
    ]),
  ),
});

async function getErrorMessage(
  webhooks: TestWebhooks,
  data: Record<string, unknown>,
  more: object = {},
): Promise<string | undefined> {
  const response = await webhooks.ask("/validate-configmap", { object: map(data), ...more });
  if (!response.allowed) assert.equal(response.status.code, 400);
  return response.allowed ? undefined : (response.status.message ?? "");
}

const invalid = (paths: Record<string, string>) =>
  `___${JSON.stringify({ reason: "ConfigParamInvalid", message: paths })}___`;

type Row = readonly [
  field: string,
  good: readonly number[],
  bad: readonly (readonly [value: number, text: string])[],
];
const percentRow = (field: string): Row => [
  field,
  [0, 100],
  [
    [-1, "0 or greater"],
    [101, "100 or less"],
  ],
];
const least = (field: string, low: number): Row => [field, [low], [[low - 1, `${low} or greater`]]];

const colocation: readonly Row[] = [
  ...[
    "metricAggregateDurationSeconds",
    "metricReportIntervalSeconds",
    "degradeTimeMinutes",
    "updateTimeThresholdSeconds",
  ].map((field) => least(field, 1)),
  ...[
    "cpuReclaimThresholdPercent",
    "memoryReclaimThresholdPercent",
    "batchCPUThresholdPercent",
    "batchMemoryThresholdPercent",
  ].map((field) => least(field, 0)),
  ...[
    "midCPUThresholdPercent",
    "midMemoryThresholdPercent",
    "midUnallocatedPercent",
    "midStaticCPUReservedPercent",
    "midStaticMemoryReservedPercent",
  ].map(percentRow),
  [
    "resourceDiffThreshold",
    [0.1, 1],
    [
      [0, "greater than 0"],
      [1.1, "1 or less"],
    ],
  ],
];
const threshold: readonly Row[] = [
  ...["cpuSuppressThresholdPercent", "cpuSuppressMinPercent", "cpuEvictBEUsageThresholdPercent"].map(
    percentRow,
  ),
  ["cpuEvictTimeWindowSeconds", [1], [[0, "greater than 0"]]],
  [
    "allocatableEvictPriorityThreshold",
    [0, 7999],
    [
      [-1, "0 or greater"],
      [8000, "7,999 or less"],
    ],
  ],
];
const cpuQos: readonly Row[] = [
  [
    "groupIdentity",
    [-1, 2],
    [
      [-2, "-1 or greater"],
      [3, "2 or less"],
    ],
  ],
  [
    "schedIdle",
    [0, 1],
    [
      [-1, "0 or greater"],
      [2, "1 or less"],
    ],
  ],
];
const memoryQos: readonly Row[] = [
  ...["minLimitPercent", "lowLimitPercent", "throttlingPercent", "wmarkRatio", "pageCacheLimitPercent"].map(
    percentRow,
  ),
  [
    "wmarkScalePermill",
    [1, 1000],
    [
      [0, "1 or greater"],
      [1001, "1,000 or less"],
    ],
  ],
  [
    "wmarkMinAdj",
    [-25, 50],
    [
      [-26, "-25 or greater"],
      [51, "50 or less"],
    ],
  ],
  ["priorityEnable", [0, 1], [[2, "1 or less"]]],
  ["oomKillGroup", [0, 1], [[2, "1 or less"]]],
  ["priority", [0, 12], [[13, "12 or less"]]],
];
const cpuBurst: readonly Row[] = [
  [
    "cpuBurstPercent",
    [1, 10_000],
    [
      [0, "1 or greater"],
      [10_001, "10,000 or less"],
    ],
  ],
  least("cfsQuotaBurstPercent", 100),
  least("cfsQuotaBurstPeriodSeconds", -1),
];
const system: readonly Row[] = [
  ["minFreeKbytesFactor", [1], [[0, "greater than 0"]]],
  [
    "watermarkScaleFactor",
    [1, 400],
    [
      [0, "greater than 0"],
      [401, "400 or less"],
    ],
  ],
  ["memcgReapBackGround", [0, 1], [[2, "1 or less"]]],
  ["pageCacheLimitEnabled", [0, 1], [[2, "1 or less"]]],
];

interface Place {
  readonly key: string;
  readonly rows: readonly Row[];
  readonly path: string;
  readonly wrap: (fields: object) => unknown;
}

const cluster = (fields: object) => ({ clusterStrategy: fields });
const nodeSelector = { matchLabels: { pool: "a" } };
const inNodes = (fields: object) => ({ nodeStrategies: [{ name: "a", nodeSelector, ...fields }] });
const qosClass = (name: string, block: string) => (fields: object) =>
  cluster({ [name]: { [block]: fields } });

const places: readonly Place[] = [
  {
    key: "colocation-config",
    rows: colocation,
    path: "ColocationCfg.ColocationStrategy",
    wrap: (fields) => fields,
  },
  {
    key: "colocation-config",
    rows: colocation,
    path: "ColocationCfg.NodeConfigs[0].ColocationStrategy",
    wrap: (fields) => ({ nodeConfigs: [{ name: "a", nodeSelector, ...fields }] }),
  },
  {
    key: "resource-threshold-config",
    rows: threshold,
    path: "ResourceThresholdCfg.ClusterStrategy",
    wrap: cluster,
  },
  {
    key: "resource-threshold-config",
    rows: threshold,
    path: "ResourceThresholdCfg.NodeStrategies[0].ResourceThresholdStrategy",
    wrap: inNodes,
  },
  {
    key: "resource-qos-config",
    rows: cpuQos,
    path: "ResourceQOSCfg.ClusterStrategy.BEClass.CPUQOS.CPUQOS",
    wrap: qosClass("beClass", "cpuQOS"),
  },
  {
    key: "resource-qos-config",
    rows: cpuQos,
    path: "ResourceQOSCfg.ClusterStrategy.CgroupRoot.CPUQOS.CPUQOS",
    wrap: qosClass("cgroupRoot", "cpuQOS"),
  },
  {
    key: "resource-qos-config",
    rows: memoryQos,
    path: "ResourceQOSCfg.ClusterStrategy.LSRClass.MemoryQOS.MemoryQOS",
    wrap: qosClass("lsrClass", "memoryQOS"),
  },
  {
    key: "resource-qos-config",
    rows: memoryQos,
    path: "ResourceQOSCfg.ClusterStrategy.SystemClass.MemoryQOS.MemoryQOS",
    wrap: qosClass("systemClass", "memoryQOS"),
  },
  {
    key: "resource-qos-config",
    rows: [percentRow("mbaPercent")],
    path: "ResourceQOSCfg.ClusterStrategy.LSClass.ResctrlQOS.ResctrlQOS",
    wrap: qosClass("lsClass", "resctrlQOS"),
  },
  {
    key: "cpu-burst-config",
    rows: cpuBurst,
    path: "CPUBurstCfg.ClusterStrategy.CPUBurstConfig",
    wrap: cluster,
  },
  {
    key: "cpu-burst-config",
    rows: [percentRow("sharePoolThresholdPercent")],
    path: "CPUBurstCfg.ClusterStrategy",
    wrap: cluster,
  },
  { key: "system-config", rows: system, path: "SystemCfg.ClusterStrategy", wrap: cluster },
  { key: "system-config", rows: system, path: "SystemCfg.NodeStrategies[0].SystemStrategy", wrap: inNodes },
];

test("every field with its bounds", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  for (const { key, rows, path, wrap } of places)
    for (const [field, good, bad] of rows) {
      for (const value of good)
        assert.equal(
          await getErrorMessage(webhooks, { [key]: wrap({ [field]: value }) }),
          undefined,
          `${key} ${field}=${value}`,
        );
      for (const [value, text] of bad)
        assert.equal(
          await getErrorMessage(webhooks, { [key]: wrap({ [field]: value }) }),
          invalid({ [`${path}.${goName(field)}`]: `${goName(field)} must be ${text}` }),
          `${key} ${field}=${value}`,
        );
    }
});

const pairs: readonly [
  key: string,
  upper: string,
  lower: string,
  path: string,
  wrap: (fields: object) => unknown,
][] = [
  ...[
    ["memoryEvictThresholdPercent", "memoryEvictLowerPercent"],
    ["cpuEvictThresholdPercent", "cpuEvictLowerPercent"],
    ["cpuEvictBESatisfactionUpperPercent", "cpuEvictBESatisfactionLowerPercent"],
    ["memoryAllocatableEvictThresholdPercent", "memoryAllocatableEvictLowerPercent"],
    ["cpuAllocatableEvictThresholdPercent", "cpuAllocatableEvictLowerPercent"],
  ].map(([upper = "", lower = ""]): (typeof pairs)[number] => [
    "resource-threshold-config",
    upper,
    lower,
    "ResourceThresholdCfg.ClusterStrategy",
    cluster,
  ]),
  [
    "resource-qos-config",
    "catRangeEndPercent",
    "catRangeStartPercent",
    "ResourceQOSCfg.ClusterStrategy.BEClass.ResctrlQOS.ResctrlQOS",
    qosClass("beClass", "resctrlQOS"),
  ],
];

test("fields that come in pairs", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  for (const [key, upper, lower, path, wrap] of pairs) {
    const above = { [`${path}.${goName(upper)}`]: `${goName(upper)} must be greater than ${goName(lower)}` };
    const below = { [`${path}.${goName(lower)}`]: `${goName(lower)} must be less than ${goName(upper)}` };
    const ask = (fields: object) => getErrorMessage(webhooks, { [key]: wrap(fields) });
    assert.equal(await ask({ [upper]: 70, [lower]: 60 }), undefined, upper);
    assert.equal(await ask({ [upper]: 70 }), invalid(above), upper);
    assert.equal(await ask({ [lower]: 70 }), invalid(below), upper);
    const both = Object.fromEntries(
      Object.entries({ ...above, ...below }).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    );
    assert.equal(await ask({ [upper]: 60, [lower]: 60 }), invalid(both), upper);
  }
});

test("parsing: names in any case, unknown fields, wrong types, null", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const ask = (text: unknown) => getErrorMessage(webhooks, { "colocation-config": text });
  assert.match(
    (await ask({ CPURECLAIMThresholdPercent: -1 })) ?? "",
    /CPUReclaimThresholdPercent must be 0 or greater/,
  );
  assert.equal(await ask({ nonsense: { a: 1 }, enable: true }), undefined);
  assert.equal(await ask({ degradeTimeMinutes: null }), undefined);
  const failed =
    /^___\{"reason":"ParseConfigFail","message":"Failed to parse colocation config in configmap koordinator-system\/slo-controller-config, err: .+"\}___$/;
  for (const text of [
    "{",
    "null",
    "[]",
    { degradeTimeMinutes: "1" },
    { degradeTimeMinutes: 1.5 },
    { nodeConfigs: [{ nodeSelector: 1 }] },
  ])
    assert.match((await ask(text)) ?? "", failed, JSON.stringify(text));
});

test("every field has the type of the Go struct that it becomes", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const network = (fields: object) => cluster({ lsClass: { networkQOS: fields } });
  const rows: readonly (readonly [key: string, title: string, value: unknown, path: RegExp])[] = [
    ["colocation-config", "colocation", { enable: "yes" }, /enable must be true or false/],
    [
      "colocation-config",
      "colocation",
      { metricAggregatePolicy: { durations: ["5 minutes"] } },
      /metricAggregatePolicy.durations\[0\] must be a duration/,
    ],
    ["colocation-config", "colocation", { nodeConfigs: [{ cpuCalculatePolicy: 5 }] }, /nodeConfigs\[0\]/],
    [
      "resource-threshold-config",
      "resourceThreshold",
      cluster({ cpuSuppressPolicy: 5 }),
      /cpuSuppressPolicy/,
    ],
    ["resource-qos-config", "ResourceQOS", cluster({ policies: "x" }), /policies must be an object/],
    [
      "resource-qos-config",
      "ResourceQOS",
      cluster({ beClass: { cpuQOS: { coreExpeller: 1 } } }),
      /coreExpeller/,
    ],
    [
      "resource-qos-config",
      "ResourceQOS",
      cluster({ lsClass: { blkioQOS: { blocks: [{ ioCfg: { readIOPS: "1" } }] } } }),
      /blocks\[0\].ioCfg.readIOPS/,
    ],
    ["resource-qos-config", "ResourceQOS", network({ ingressRequest: true }), /ingressRequest/],
    ["resource-qos-config", "ResourceQOS", network({ enable: 1 }), /networkQOS.enable/],
    ["resource-qos-config", "ResourceQOS", network({ egressLimit: 1.5 }), /egressLimit/],
    [
      "system-config",
      "System",
      cluster({ totalNetworkBandwidth: "x" }),
      /totalNetworkBandwidth must be a quantity/,
    ],
    [
      "system-config",
      "System",
      cluster({ schedFeatures: { a: "on" } }),
      /schedFeatures.a must be true or false/,
    ],
    ["cpu-burst-config", "CpuBurst", cluster({ policy: {} }), /policy must be a string/],
  ];
  for (const [key, title, value, path] of rows) {
    const message = (await getErrorMessage(webhooks, { [key]: value })) ?? "";
    const start = `___{"reason":"ParseConfigFail","message":"Failed to parse ${title} config in configmap koordinator-system/slo-controller-config, err: `;
    assert.ok(message.startsWith(start), `${key}: ${message}`);
    assert.match(message, path);
  }
});

test("only the SLO configuration, only what changed, never a deletion", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const bad = { "system-config": cluster({ minFreeKbytesFactor: 0 }) };
  const other = await webhooks.ask("/validate-configmap", { object: map(bad, "another") });
  assert.equal(other.allowed, true);
  const unchanged = await webhooks.ask("/validate-configmap", {
    operation: "UPDATE",
    object: map(bad),
    oldObject: map(bad),
  });
  assert.equal(unchanged.allowed, true);
  const changed = await webhooks.ask("/validate-configmap", {
    operation: "UPDATE",
    object: map(bad),
    oldObject: map({}),
  });
  assert.equal(changed.allowed, false);
  assert.equal(
    (await webhooks.ask("/validate-configmap", { operation: "DELETE", oldObject: map(bad) })).allowed,
    true,
  );
});

test("node profiles need a selector, and names behind a flag", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const ask = (profiles: readonly object[]) =>
    getErrorMessage(webhooks, { "system-config": { nodeStrategies: profiles } });
  for (const selector of [
    undefined,
    {},
    { matchLabels: {} },
    { matchExpressions: [{ key: "a", operator: "Perhaps" }] },
  ])
    assert.match(
      (await ask([{ name: "a", nodeSelector: selector }])) ?? "",
      /"ConfigParamInvalid".*nodeSelector/,
    );
  const twice = [
    { name: "a", nodeSelector: { matchLabels: { a: "1" } } },
    { name: "a", nodeSelector: { matchLabels: { a: "2" } } },
  ];
  assert.equal(await ask(twice), undefined);
  await using strict = await startTestWebhooks({ featureGates: on, settings: { sloNamesNeeded: true } });
  const reviewed = (profiles: readonly object[]) =>
    getErrorMessage(strict, { "system-config": { nodeStrategies: profiles } });
  assert.match((await reviewed(twice)) ?? "", /used twice/);
  assert.match((await reviewed([{ nodeSelector: { matchLabels: { a: "1" } } }])) ?? "", /needs a name/);
});

test("profiles that overlap", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const exists = { matchExpressions: [{ key: "x", operator: "Exists" }] };
  const isIn = (values: readonly string[]) => ({ matchExpressions: [{ key: "x", operator: "In", values }] });
  const cases: readonly [name: string, one: object, two: object, overlaps: boolean][] = [
    ["same", { matchLabels: { x: "1" } }, { matchLabels: { x: "1" } }, true],
    ["different", { matchLabels: { x: "1" } }, { matchLabels: { x: "2" } }, false],
    ["subset", { matchLabels: { x: "1" } }, { matchLabels: { x: "1", y: "1" } }, true],
    ["exists against a literal", exists, { matchLabels: { x: "1" } }, true],
    ["values in common", isIn(["1", "2"]), isIn(["2", "3"]), true],
    ["no values in common", isIn(["1", "2"]), isIn(["3"]), false],
    ["two Exists have no sample", exists, exists, false],
  ];
  for (const [name, one, two, overlaps] of cases) {
    const nodeStrategies = [
      { name: "a", nodeSelector: one },
      { name: "b", nodeSelector: two },
    ];
    const message = await getErrorMessage(webhooks, { "cpu-burst-config": { nodeStrategies } });
    const text =
      '___{"reason":"NodeStrategiesOverlap","message":{"config":"cpu-burst-config","strategies":["a","b"]}}___';
    assert.equal(message, overlaps ? text : undefined, name);
  }
});

test("nodes that are there already", async () => {
  const nodes: readonly Node[] = [{ metadata: { name: "n1", labels: { x: "1", y: "1" } } }];
  await using webhooks = await startTestWebhooks({ featureGates: on, nodes });
  const profile = (label: string) => ({
    name: label,
    nodeSelector: { matchExpressions: [{ key: label, operator: "Exists" }] },
  });
  assert.equal(
    await getErrorMessage(webhooks, { "system-config": { nodeStrategies: [profile("x"), profile("y")] } }),
    '___{"reason":"ExistNodeConfict","message":{"config":"system-config","strategies":["x","y"],"exampleNodes":["n1"]}}___',
  );
  assert.equal(
    await getErrorMessage(webhooks, { "system-config": { nodeStrategies: [profile("x")] } }),
    undefined,
  );
});

test("bandwidth shares", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: on });
  const shares = (lsr: object, be: object = {}) =>
    cluster({ lsrClass: { networkQOS: lsr }, beClass: { networkQOS: be } });
  const total = { "system-config": cluster({ totalNetworkBandwidth: "100M" }) };
  const cases: readonly [name: string, data: Record<string, unknown>, message: RegExp | undefined][] = [
    [
      "percentages",
      { "resource-qos-config": shares({ ingressRequest: 60 }, { ingressRequest: 40 }) },
      undefined,
    ],
    [
      "too much",
      { "resource-qos-config": shares({ ingressRequest: 60 }, { ingressRequest: 41 }) },
      /ingress total net bandwidth percentage already over 100/,
    ],
    ["no percentage", { "resource-qos-config": shares({ egressLimit: 101 }) }, /egressLimit: 101 must be/],
    ["no quantity", { "resource-qos-config": shares({ egressLimit: "fast" }) }, /"fast" must be/],
    [
      "of two kinds",
      { "resource-qos-config": shares({ ingressRequest: 1 }, { egressRequest: "1M" }) },
      /all be percentages or all be quantities/,
    ],
    [
      "quantities within the total",
      { ...total, "resource-qos-config": shares({ ingressRequest: "60M" }, { ingressRequest: "40M" }) },
      undefined,
    ],
    [
      "quantities beyond it",
      { ...total, "resource-qos-config": shares({ ingressRequest: "60M" }, { ingressRequest: "41M" }) },
      /over totalNetworkBandwidth/,
    ],
    ["quantities without a total", { "resource-qos-config": shares({ ingressRequest: "60M" }) }, undefined],
  ];
  for (const [name, data, message] of cases) {
    const told = await getErrorMessage(webhooks, data);
    if (message) assert.match(told ?? "", message, name);
    else assert.equal(told, undefined, name);
  }
});

test("words and the three other keys, behind a gate", async () => {
  const world: TestWebhooksOptions = { featureGates: `${on},SLOConfigStrict=true` };
  const data: readonly [Record<string, unknown>, RegExp][] = [
    [
      { "colocation-config": { cpuCalculatePolicy: "guess" } },
      /cpuCalculatePolicy must be one of usage, maxUsageRequest/,
    ],
    [
      { "resource-amplification-config": { resourceAmplificationRatio: { cpu: 0.5 } } },
      /cpu must be 1 or greater/,
    ],
    [{ "cpu-normalization-config": { defaultRatio: 6 } }, /defaultRatio must be from 1 to 5/],
    [{ "host-application-config": "{" }, /host-application-config/],
  ];
  await using strict = await startTestWebhooks(world);
  await using usual = await startTestWebhooks({ featureGates: on });
  for (const [each, message] of data) {
    assert.match((await getErrorMessage(strict, each)) ?? "", message);
    assert.equal(await getErrorMessage(usual, each), undefined);
  }
});
