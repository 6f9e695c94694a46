/** Every row of the tables about /mutate-pod, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import type { ClusterColocationProfile } from "../kinds.ts";
import {
  patched,
  startTestWebhooks,
  type TestWebhooksOptions,
  type Response,
} from "../testing/webhook-server.ts";

type Spec = NonNullable<ClusterColocationProfile["spec"]>;
interface PodObject {
  metadata: { labels?: Record<string, string>; annotations?: Record<string, string>; namespace?: string };
  spec: Record<string, unknown> & {
    containers: { name?: string; image?: string; resources?: Record<string, Record<string, string>> }[];
  };
}

const profile = (
  name: string,
  spec: Spec,
  annotations?: Record<string, string>,
): ClusterColocationProfile => ({
  metadata: { name, ...(annotations ? { annotations } : {}) },
  spec,
});

const plain = (metadata: object = {}, resources: object = {}): PodObject =>
  ({
    metadata: { name: "p", ...metadata },
    spec: { containers: [{ name: "c", image: "i", resources }] },
  }) as PodObject;

async function mutate(
  world: TestWebhooksOptions,
  object: unknown,
  more: object = {},
): Promise<{ response: Response; pod: PodObject }> {
  await using webhooks = await startTestWebhooks(world);
  const response = await webhooks.ask("/mutate-pod", { namespace: "ns", object, ...more });
  return { response, pod: patched(object, response) as PodObject };
}

test("a profile matches when both selectors match; absent or empty means everything", async () => {
  const cases: readonly [name: string, spec: Spec, matches: boolean][] = [
    ["no selectors", {}, true],
    ["empty selectors", { selector: {}, namespaceSelector: {} }, true],
    ["pod label", { selector: { matchLabels: { app: "x" } } }, true],
    ["other pod label", { selector: { matchLabels: { app: "y" } } }, false],
    ["expression", { selector: { matchExpressions: [{ key: "app", operator: "Exists" }] } }, true],
    ["namespace", { namespaceSelector: { matchLabels: { team: "a" } } }, true],
    ["other namespace", { namespaceSelector: { matchLabels: { team: "b" } } }, false],
    [
      "only one of both",
      { selector: { matchLabels: { app: "x" } }, namespaceSelector: { matchLabels: { team: "b" } } },
      false,
    ],
  ];
  for (const [name, spec, matches] of cases) {
    const world = {
      profiles: [profile("a", { ...spec, labels: { hit: "1" } })],
      namespaces: { ns: { team: "a" } },
    };
    const { pod } = await mutate(world, plain({ labels: { app: "x" } }));
    assert.equal(pod.metadata.labels?.["hit"], matches ? "1" : undefined, name);
  }
});

test("a selector that cannot be read selects nothing and says so", async () => {
  const selector = { matchExpressions: [{ key: "app", operator: "Perhaps" }] };
  const { pod, response } = await mutate(
    { profiles: [profile("bad", { selector, labels: { hit: "1" } })] },
    plain(),
  );
  assert.equal(pod.metadata.labels, undefined);
  assert.match(response.warnings?.[0] ?? "", /bad is ignored: unknown operator/);
});

test("only pods that an unusable profile could select are warned about it", async () => {
  const broken = { key: "app", operator: "Perhaps" };
  const rows: readonly (readonly [what: string, spec: Spec, warned: boolean])[] = [
    ["other labels", { selector: { matchLabels: { app: "y" }, matchExpressions: [broken] } }, false],
    ["its labels", { selector: { matchLabels: { app: "x" }, matchExpressions: [broken] } }, true],
    [
      "another namespace",
      { selector: { matchExpressions: [broken] }, namespaceSelector: { matchLabels: { team: "b" } } },
      false,
    ],
    [
      "its namespace",
      { selector: { matchExpressions: [broken] }, namespaceSelector: { matchLabels: { team: "a" } } },
      true,
    ],
    [
      "other labels and a broken namespace selector",
      { selector: { matchLabels: { app: "y" } }, namespaceSelector: { matchExpressions: [broken] } },
      false,
    ],
  ];
  for (const [what, spec, warned] of rows) {
    const world = { profiles: [profile("bad", spec)], namespaces: { ns: { team: "a" } } };
    const { response } = await mutate(world, plain({ labels: { app: "x" } }));
    assert.equal(response.warnings?.length ?? 0, warned ? 1 : 0, what);
  }
});

test("every field of a profile does what it says, in the documented order", async () => {
  const spec: Spec = {
    labels: { set: "new", mapped: "x" },
    annotations: { note: "new" },
    labelKeysMapping: { set: "copy", absent: "empty" },
    annotationKeysMapping: { note: "noted" },
    labelSuffixes: { set: "-z", nowhere: "-z" },
    schedulerName: "s",
    qosClass: "LS",
    priorityClassName: "koord-prod",
    koordinatorPriority: 7,
    patch: { metadata: { labels: { set: "patched" } }, spec: { dnsPolicy: "Default" } },
  };
  const object = plain({ labels: { set: "old" }, annotations: { note: "old", kept: "1" } });
  const { pod } = await mutate({ profiles: [profile("a", spec)] }, object);
  assert.deepEqual(pod.metadata.labels, {
    set: "patched",
    mapped: "x",
    copy: "new",
    empty: "",
    "koordinator.sh/qosClass": "LS",
    "koordinator.sh/priority": "7",
  });
  assert.deepEqual(pod.metadata.annotations, { note: "new", kept: "1", noted: "new" });
  assert.equal(pod.spec["schedulerName"], "s");
  assert.equal(pod.spec["priority"], 9000);
  assert.equal(pod.spec["priorityClassName"], "koord-prod");
  assert.equal(pod.spec["preemptionPolicy"], "PreemptLowerPriority");
  assert.equal(pod.spec["dnsPolicy"], "Default");
});

test("profiles apply by name and later ones win; selectors are judged on the pod as it came", async () => {
  const profiles = [
    profile("b", { labels: { who: "b" } }),
    profile("a", { labels: { who: "a", made: "1" } }),
    profile("c", { selector: { matchLabels: { made: "1" } }, labels: { who: "c" } }),
  ];
  const { pod } = await mutate({ profiles }, plain());
  assert.deepEqual(pod.metadata.labels, { who: "b", made: "1" });
});

test("a PriorityClass that does not exist, or a percentage that is none, refuses the pod with 500", async () => {
  for (const spec of [{ priorityClassName: "nope" }, { probability: "half" }]) {
    const { response } = await mutate({ profiles: [profile("a", spec)] }, plain());
    assert.equal(response.allowed, false);
    assert.equal(response.status.code, 500);
    assert.match(response.status.message ?? "", /ClusterColocationProfile a: /);
  }
});

test("probability N applies N times in a hundred", async () => {
  for (const [probability, draw, applies] of [
    [0, 0, false],
    ["0%", 0, false],
    [100, 0.999, true],
    ["100%", 0.999, true],
    [30, 0.29, true],
    ["30%", 0.3, false],
    ["30%", 0.31, false],
  ] as const) {
    const world = { profiles: [profile("a", { probability, labels: { hit: "1" } })], random: () => draw };
    const { pod } = await mutate(world, plain());
    assert.equal(pod.metadata.labels?.["hit"], applies ? "1" : undefined, `${probability} at ${draw}`);
  }
});

const asks = { requests: { cpu: "500m", memory: "1Gi" }, limits: { cpu: "4", memory: "1024Mi" } };

test("resources are translated by the class of the pod", async () => {
  const batch = {
    requests: { "kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi" },
    limits: { "kubernetes.io/batch-cpu": "4k", "kubernetes.io/batch-memory": "1Gi" },
  };
  const mid = {
    requests: { "kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "1Gi" },
    limits: { "kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "1Gi" },
  };
  const cases: readonly [name: string, spec: Spec, labels: Record<string, string>, wanted: object][] = [
    ["batch", { priorityClassName: "koord-batch" }, {}, batch],
    ["mid", { priorityClassName: "koord-mid" }, {}, mid],
    ["free", { priorityClassName: "koord-free" }, {}, asks],
    ["prod", { priorityClassName: "koord-prod" }, {}, asks],
    ["none", {}, {}, asks],
    ["by QoS BE", { qosClass: "BE" }, {}, batch],
    ["by QoS LS", { qosClass: "LS" }, {}, asks],
    [
      "by label, over the band",
      { priorityClassName: "koord-batch" },
      { "koordinator.sh/priority-class": "koord-mid" },
      mid,
    ],
    [
      "by an unknown label",
      { priorityClassName: "koord-batch" },
      { "koordinator.sh/priority-class": "x" },
      asks,
    ],
  ];
  for (const [name, spec, labels, wanted] of cases) {
    const { pod } = await mutate({ profiles: [profile("a", spec)] }, plain({ labels }, asks));
    assert.deepEqual(pod.spec.containers[0]?.resources, wanted, name);
  }
});

test("no profile, no translation", async () => {
  const { pod } = await mutate({}, { ...plain({}, asks), spec: { ...plain({}, asks).spec, priority: 5500 } });
  assert.deepEqual(pod.spec.containers[0]?.resources, asks);
});

test("a matched profile translates even when its draw was lost; an annotation or a gate keeps it from that", async () => {
  const lost = profile("a", { probability: 1, labels: { hit: "1" } });
  const object = { ...plain({}, asks), spec: { ...plain({}, asks).spec, priority: 5000 } };
  const { pod } = await mutate({ profiles: [lost], random: () => 0.5 }, object);
  assert.equal(pod.metadata.labels?.["hit"], undefined);
  assert.ok(pod.spec.containers[0]?.resources?.["requests"]?.["kubernetes.io/batch-cpu"]);
  const skipping = profile("a", {}, { "config.koordinator.sh/skip-update-resources": "" });
  const skipped = await mutate({ profiles: [skipping] }, object);
  assert.deepEqual(skipped.pod.spec.containers[0]?.resources, asks);
  const gated = await mutate(
    { profiles: [profile("a", {})], featureGates: "ColocationProfileSkipMutatingResources=true" },
    object,
  );
  assert.deepEqual(gated.pod.spec.containers[0]?.resources, asks);
});

test("init containers and overhead are translated, a limit alone becomes a request, the rest stays", async () => {
  const object = {
    metadata: {},
    spec: {
      overhead: { cpu: "250m", memory: "64Mi" },
      resources: { requests: { cpu: "1" } },
      initContainers: [{ name: "i", resources: { requests: { cpu: "1" } } }],
      containers: [
        {
          name: "c",
          resources: {
            limits: { cpu: "2", "nvidia.com/gpu": "1" },
            requests: { "kubernetes.io/batch-memory": "5", memory: "3" },
          },
        },
      ],
    },
  };
  const { pod } = await mutate({ profiles: [profile("a", { qosClass: "BE" })] }, object);
  assert.deepEqual(pod.spec["overhead"], {
    "kubernetes.io/batch-cpu": "250",
    "kubernetes.io/batch-memory": "64Mi",
  });
  assert.deepEqual(pod.spec["resources"], { requests: { cpu: "1" } });
  assert.deepEqual(pod.spec["initContainers"], [
    { name: "i", resources: { requests: { "kubernetes.io/batch-cpu": "1k" } } },
  ]);
  assert.deepEqual(pod.spec.containers[0]?.resources, {
    limits: { "kubernetes.io/batch-cpu": "2k", "nvidia.com/gpu": "1" },
    requests: { "kubernetes.io/batch-memory": "3", "kubernetes.io/batch-cpu": "2k" },
  });
});

const specKey = "node.koordinator.sh/extended-resource-spec";

test("the extended-resource annotation repeats the batch resources of normal containers", async () => {
  const batch = { requests: { "kubernetes.io/batch-cpu": "1000" }, limits: { "kubernetes.io/mid-cpu": "5" } };
  const written = '{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"1k"}}}}';
  const cases: readonly [
    name: string,
    annotation: string | undefined,
    resources: object,
    wanted: string | undefined,
  ][] = [
    ["written", undefined, batch, written],
    ["overwritten", '{"containers":{}}', batch, written],
    [
      "left alone when the same",
      '{"containers": {"c":{"requests":{"kubernetes.io/batch-cpu":1000}}}}',
      batch,
      '{"containers": {"c":{"requests":{"kubernetes.io/batch-cpu":1000}}}}',
    ],
    ["none without batch resources", undefined, {}, undefined],
    ["a user's is emptied", '{"containers":{"x":{"limits":{"kubernetes.io/batch-cpu":"1"}}}}', {}, "{}"],
    ["empty is left alone", "{}", {}, "{}"],
  ];
  for (const [name, annotation, resources, wanted] of cases) {
    const annotations = annotation === undefined ? {} : { annotations: { [specKey]: annotation } };
    const { pod } = await mutate({}, plain(annotations, resources));
    assert.equal(pod.metadata.annotations?.[specKey], wanted, name);
  }
  for (const broken of ["", "{", "[]", '{"containers":{"c":{"limits":{"kubernetes.io/batch-cpu":"x"}}}}']) {
    const { response } = await mutate({}, plain({ annotations: { [specKey]: broken } }));
    assert.equal(response.status.code, 400, broken);
    assert.match(response.status.message ?? "", /extended-resource-spec/);
  }
  const off = await mutate({ featureGates: "DisableExtendedResourceSpec=true" }, plain({}, batch));
  assert.equal(off.pod.metadata.annotations, undefined);
});

test("pods of a quota tree go to its nodes", async () => {
  const treeLabel = "quota.scheduling.koordinator.sh/tree-id";
  const world: TestWebhooksOptions = {
    featureGates: "MultiQuotaTree=true",
    quotas: [
      { metadata: { name: "q", namespace: "ns", labels: { [treeLabel]: "t1" } } },
      {
        metadata: {
          name: "bound",
          namespace: "x",
          labels: { [treeLabel]: "t1" },
          annotations: { "quota.scheduling.koordinator.sh/namespaces": '["there"]' },
        },
      },
      { metadata: { name: "loose", namespace: "x" } },
    ],
    quotaProfiles: [
      {
        metadata: { name: "p1", namespace: "x", labels: { [treeLabel]: "t1" } },
        spec: {
          nodeSelector: { matchLabels: { pool: "a" }, matchExpressions: [{ key: "z", operator: "Exists" }] },
        },
      },
    ],
  };
  const added = [
    { key: "pool", operator: "In", values: ["a"] },
    { key: "z", operator: "Exists" },
  ];
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const terms = (pod: PodObject) =>
    (pod.spec["affinity"] as { nodeAffinity: { [required]: { nodeSelectorTerms: unknown } } } | undefined)
      ?.nodeAffinity[required].nodeSelectorTerms;
  const labelled = (name: string) => plain({ labels: { "quota.scheduling.koordinator.sh/name": name } });
  const one = await mutate(world, labelled("q"));
  assert.deepEqual(terms(one.pod), [{ matchExpressions: added }]);
  const again = await mutate(world, one.pod);
  assert.deepEqual(terms(again.pod), [{ matchExpressions: added }], "asking twice adds once");
  const byNamespace = await mutate(world, plain(), { namespace: "there" });
  assert.deepEqual(terms(byNamespace.pod), [{ matchExpressions: added }]);
  const own = { key: "own", operator: "Exists" };
  const nodeAffinity = {
    [required]: { nodeSelectorTerms: [{ matchExpressions: [own] }, { matchFields: [] }] },
  };
  const object = labelled("q");
  const both = await mutate(world, { ...object, spec: { ...object.spec, affinity: { nodeAffinity } } });
  assert.deepEqual(terms(both.pod), [
    { matchExpressions: [own, ...added] },
    { matchFields: [], matchExpressions: added },
  ]);
  assert.equal(terms((await mutate(world, labelled("loose"))).pod), undefined);
  assert.equal(terms((await mutate({ ...world, featureGates: "" }, labelled("q"))).pod), undefined);
});

test("GPU shorthands are spelled out", async () => {
  const [whole, shared, core, ratio, memory] = [
    "gpu",
    "gpu.shared",
    "gpu-core",
    "gpu-memory-ratio",
    "gpu-memory",
  ].map((name) => `koordinator.sh/${name}`) as [string, string, string, string, string];
  const cases: readonly [name: string, resources: object, wanted: object][] = [
    [
      "whole",
      { requests: { [whole]: "200" }, limits: { [whole]: "200" } },
      {
        requests: { [core]: "200", [ratio]: "200", [shared]: "2" },
        limits: { [core]: "200", [ratio]: "200", [shared]: "2" },
      },
    ],
    [
      "half",
      { requests: { [whole]: "50" }, limits: { [whole]: "50" } },
      {
        requests: { [core]: "50", [ratio]: "50", [shared]: "1" },
        limits: { [core]: "50", [ratio]: "50", [shared]: "1" },
      },
    ],
    [
      "not divisible",
      { requests: { [ratio]: "150" }, limits: {} },
      { requests: { [ratio]: "150", [shared]: "1" }, limits: { [shared]: "1" } },
    ],
    [
      "core counts without ratio",
      { requests: { [core]: "300" }, limits: {} },
      { requests: { [core]: "300", [shared]: "3" }, limits: { [shared]: "3" } },
    ],
    [
      "shared is kept",
      { requests: { [shared]: "4", [memory]: "1Gi" }, limits: {} },
      { requests: { [shared]: "4", [memory]: "1Gi" }, limits: {} },
    ],
    [
      "limits alone",
      { limits: { [memory]: "1Gi" } },
      { limits: { [memory]: "1Gi", [shared]: "1" }, requests: { [shared]: "1" } },
    ],
    ["no GPU", { requests: { cpu: "1" } }, { requests: { cpu: "1" } }],
  ];
  for (const [name, resources, wanted] of cases) {
    const { pod, response } = await mutate({}, plain({}, resources));
    assert.equal(response.allowed, true, name);
    assert.deepEqual(pod.spec.containers[0]?.resources, wanted, name);
  }
  const off = await mutate(
    { featureGates: "DisableDeviceResourceSpec=true" },
    plain({}, { requests: { [whole]: "1" } }),
  );
  assert.deepEqual(off.pod.spec.containers[0]?.resources, { requests: { [whole]: "1" } });
});

test("an update changes nothing, unless the gate re-applies labels and annotations", async () => {
  const profiles = [
    profile("a", {
      labels: { hit: "1", "koordinator.sh/qosClass": "BE" },
      annotations: { note: "1" },
      qosClass: "BE",
      schedulerName: "s",
    }),
  ];
  const update = { operation: "UPDATE", oldObject: plain() };
  const off = await mutate({ profiles }, plain(), update);
  assert.deepEqual(off.pod, plain());
  const on = await mutate(
    { profiles, featureGates: "ColocationProfileReapplyOnUpdate=true" },
    plain(),
    update,
  );
  assert.deepEqual(on.pod.metadata.labels, { hit: "1" }, "what may not change on a pod stays");
  assert.deepEqual(on.pod.metadata.annotations, { note: "1" });
  assert.equal(on.pod.spec["schedulerName"], undefined);
});

test("a second review of the result changes nothing, whatever is drawn", async () => {
  const spec: Spec = {
    probability: "50%",
    labels: { a: "1" },
    labelSuffixes: { a: "-x" },
    labelKeysMapping: { a: "b" },
    qosClass: "BE",
    priorityClassName: "koord-batch",
    patch: {
      spec: { tolerations: [{ key: "t" }], containers: [{ name: "c", env: [{ name: "A", value: "1" }] }] },
    },
  };
  for (const draws of [
    [0.1, 0.9],
    [0.9, 0.1],
  ]) {
    const left = [...draws];
    const world = {
      profiles: [profile("half", spec), profile("all", { labels: { all: "1" } })],
      random: () => left.shift() ?? 0,
    };
    const first = await mutate(world, plain({}, asks));
    const second = await mutate(world, first.pod);
    assert.equal(second.response.patch, undefined, JSON.stringify(draws));
  }
});

test("a machine is left alone unless a profile names it", async () => {
  const machine = (labels: object) => ({
    metadata: { name: "m", labels },
    spec: {
      tolerations: [{ key: "virtual-kubelet.io/provider", operator: "Exists" }],
      containers: [{ name: "c", resources: asks }],
    },
  });
  const everything = profile("all", { qosClass: "BE", priorityClassName: "koord-batch" });
  const byAbsence = profile("absent", {
    selector: { matchExpressions: [{ key: "x", operator: "DoesNotExist" }] },
    qosClass: "BE",
  });
  const alone = await mutate({ profiles: [everything, byAbsence] }, machine({ app: "vm" }));
  assert.equal(alone.response.patch, undefined);
  const named = profile("named", { selector: { matchLabels: { app: "vm" } }, qosClass: "BE" });
  const { pod } = await mutate({ profiles: [named] }, machine({ app: "vm" }));
  assert.equal(pod.metadata.labels?.["koordinator.sh/qosClass"], "BE");
});

test("a second review changes nothing when profiles feed each other, and no note of the author's own gets around one", async () => {
  const profiles = [
    profile("a", { labels: { made: "1" }, labelKeysMapping: { who: "was" } }),
    profile("b", { selector: { matchLabels: { made: "1" } }, labels: { late: "1" } }),
    profile("c", { selector: { matchLabels: { who: "me" } }, labels: { who: "you" } }),
  ];
  const first = await mutate({ profiles }, plain({ labels: { who: "me" } }));
  assert.deepEqual(first.pod.metadata.labels, { who: "you", was: "me", made: "1" });
  const second = await mutate({ profiles }, first.pod);
  assert.equal(second.response.patch, undefined);

  const key = "colocation.cocoonstack.io/drawn-profiles";
  const forged = plain({ annotations: { [key]: '{"a":false}' } });
  const { pod } = await mutate({ profiles: [profile("a", { labels: { hit: "1" } })] }, forged);
  assert.equal(pod.metadata.labels?.["hit"], "1", "a profile without a selector applies to every pod");
});

test("whatever the profiles are, a second review of the result changes nothing", async () => {
  const texts = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("1", "2", "-x"), {
    maxKeys: 2,
  });
  const spec = fc.record(
    {
      selector: texts.map((matchLabels) => ({ matchLabels })),
      labels: texts,
      labelKeysMapping: fc.dictionary(fc.constantFrom("a", "b"), fc.constantFrom("b", "c"), { maxKeys: 2 }),
      labelSuffixes: texts,
      probability: fc.constantFrom("0%", "50%", "100%"),
      patch: texts.map((labels) => ({ metadata: { labels } })),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(spec, { maxLength: 4 }), texts, async (specs, labels) => {
      const profiles = specs.map((each, index) => profile(`p${index}`, each as Spec));
      const first = await mutate({ profiles }, plain({ labels }, asks));
      const second = await mutate({ profiles }, first.pod);
      assert.equal(second.response.patch, undefined, JSON.stringify(first.pod.metadata));
    }),
    { numRuns: count({ small: 25, full: 2_000 }), seed: testSeed() },
  );
});

test("a profile that replaces lists leaves a machine tied to its node", async () => {
  const away = (key: string) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
  });
  const provider = { key: "virtual-kubelet.io/provider", operator: "Exists" };
  const node = { key: "metadata.name", operator: "In", values: ["n1"] };
  const required = (terms: object[]) => ({
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
  });
  const disk = { matchExpressions: [{ key: "disk", operator: "Exists" }] };
  const machine = {
    metadata: { name: "m", labels: { app: "vm" } },
    spec: {
      tolerations: [provider, away("not-ready"), away("unreachable")],
      affinity: required([{ matchFields: [node] }]),
      containers: [{ name: "c" }],
    },
  };
  const spec = {
    selector: { matchLabels: { app: "vm" } },
    patch: { spec: { tolerations: [provider, { key: "t" }], affinity: required([disk, disk]) } },
  };
  const { pod } = await mutate({ profiles: [profile("lists", spec)] }, machine);
  assert.deepEqual(pod.spec["tolerations"], [provider, { key: "t" }, away("not-ready"), away("unreachable")]);
  const tied = { ...disk, matchFields: [node] };
  assert.deepEqual(pod.spec["affinity"], required([tied, tied]));
});
