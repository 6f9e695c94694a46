/** Reviews that no API server would send: every endpoint answers each with a verdict, and none with a failure of its own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { documentedGates } from "./gates.ts";
import { buildReview, startTestWebhooks, type TestWebhooksOptions } from "./testing/webhook-server.ts";

const key = (name: string) => `quota.scheduling.koordinator.sh/${name}`;
const gates = [
  ...documentedGates,
  "MultiQuotaTree",
  "ElasticQuotaGuaranteeUsage",
  "ValidatePodDeviceResource",
  "EnablePodEnhancedValidator",
  "EnableQuotaAdmissionOnUpdate",
  "BindingAdmissionWebhook",
  "ColocationProfileReapplyOnUpdate",
  "ReservationFit",
  "ElasticQuotaChildMaxWithinParent",
  "SLOConfigStrict",
].map((name) => `${name}=true`);

const world: TestWebhooksOptions = {
  featureGates: gates.join(","),
  settings: {
    binding: {
      users: ["x"],
      dryRun: false,
      namespaces: ["*"],
      excludedNamespaces: [],
      bypassLabels: ["b"],
      bypassAnnotations: ["b"],
    },
    maxAmplificationRatio: 3,
  },
  namespaces: { ns: { team: "a" } },
  profiles: [
    {
      metadata: { name: "all" },
      spec: {
        namespaceSelector: { matchLabels: { team: "a" } },
        labels: { l: "1" },
        annotations: { n: "1" },
        labelKeysMapping: { l: "m" },
        labelSuffixes: { l: "-s" },
        qosClass: "BE",
        priorityClassName: "koord-batch",
        probability: "50%",
        patch: { spec: { tolerations: [{ key: "t" }], nodeSelector: { a: "b" } } },
      },
    },
  ],
  quotas: [
    {
      metadata: {
        name: "team",
        namespace: "q",
        labels: { [key("is-parent")]: "true", [key("tree-id")]: "t" },
      },
      spec: { min: { cpu: "10" }, max: { cpu: "40" } },
    },
    {
      metadata: { name: "ns", namespace: "ns", labels: { [key("parent")]: "team", [key("tree-id")]: "t" } },
      spec: { min: { cpu: "5" }, max: { cpu: "40" } },
    },
  ],
  quotaProfiles: [
    {
      metadata: { name: "p", namespace: "q", labels: { [key("tree-id")]: "t" } },
      spec: { nodeSelector: { matchLabels: { pool: "a" } } },
    },
  ],
  reservations: [{ metadata: { name: "r" }, status: { allocatable: { cpu: "1" } } }],
  nodes: [{ metadata: { name: "n", labels: { a: "1" } } }],
  pods: [{ metadata: { name: "p", namespace: "ns" } }],
  configMaps: [
    {
      metadata: { name: "pod-enhanced-validator-config", namespace: "koordinator-system" },
      data: { enable: "true", rules: '[{"requiredLabels":["z"]}]' },
    },
    {
      metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
      data: {
        "system-config":
          '{"nodeStrategies":[{"name":"a","nodeSelector":{"matchLabels":{"a":"1"}}},{"name":"b","nodeSelector":{"matchLabels":{"b":"1"}}}]}',
      },
    },
  ],
};

const pod = {
  metadata: {
    name: "p",
    namespace: "ns",
    labels: { "koordinator.sh/qosClass": "BE", [key("name")]: "ns" },
    annotations: {
      "node.koordinator.sh/extended-resource-spec": "{}",
      "scheduling.koordinator.sh/reservation-affinity": '{"name":"r"}',
    },
  },
  spec: {
    priority: 5000,
    overhead: { cpu: "1" },
    tolerations: [{ key: "a" }],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [] }] },
      },
    },
    initContainers: [{ name: "i", restartPolicy: "Always", resources: { requests: { cpu: "1" } } }],
    containers: [
      {
        name: "c",
        resources: { requests: { cpu: "1", "koordinator.sh/gpu": "100" }, limits: { memory: "1Gi" } },
      },
    ],
  },
};
const node = {
  metadata: {
    name: "n",
    labels: { a: "1", b: "1" },
    annotations: {
      "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.5}',
      "node.koordinator.sh/raw-allocatable": '{"cpu":"1"}',
    },
  },
  status: { allocatable: { cpu: "4", memory: "1Gi" } },
};
const quota = {
  metadata: {
    name: "new",
    namespace: "q",
    labels: { [key("parent")]: "team", [key("is-parent")]: "true" },
    annotations: {
      [key("shared-weight")]: '{"cpu":"1"}',
      [key("namespaces")]: '["z"]',
      [key("guaranteed")]: "{}",
    },
  },
  spec: { min: { cpu: "1" }, max: { cpu: "40" } },
  status: { used: { cpu: "1" } },
};
const reservation = {
  metadata: { name: "r", labels: { a: "b" } },
  spec: { template: { spec: { containers: [{ name: "c" }] } }, owners: [{}] },
};
const strategy =
  '{"clusterStrategy":{"beClass":{"networkQOS":{"ingressRequest":1},"cpuQOS":{"groupIdentity":1}}},"nodeStrategies":[{"name":"a","nodeSelector":{"matchLabels":{"a":"b"}}}]}';
const config = {
  metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
  data: { "resource-qos-config": strategy, "colocation-config": '{"nodeConfigs":[]}', "system-config": "{}" },
};

const endpoints: readonly [path: string, object: object][] = [
  ["/mutate-pod", pod],
  ["/validate-pod", pod],
  ["/validate-pod-binding", { metadata: { name: "p" }, target: {} }],
  ["/mutate-node-status", node],
  ["/validate-node", node],
  ["/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", quota],
  ["/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", quota],
  ["/mutate-reservation", reservation],
  ["/validate-configmap", config],
];

type Random = () => number;

const oddities: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e300,
  "",
  " ",
  "x",
  "null",
  "{}",
  "[]",
  "{",
  '{"a":',
  "-1",
  "1e400",
  "99999999999999999999Ei",
  "1e999999999",
  "a".repeat(300),
  "\u0000",
  "\ud800",
  "__proto__",
  "constructor",
  [],
  {},
  [[]],
  [null],
  [1, "a", {}],
  { a: null },
  { cpu: {} },
  { constructor: 1 },
  { matchLabels: [] },
  '{"cpu":"x"}',
  '{"clusterStrategy":[]}',
  '{"nodeStrategies":[null]}',
  '{"nodeStrategies":[{"nodeSelector":{"matchExpressions":[{}]}}]}',
  "CREATE",
  "true",
];

const pick = <T>(list: readonly T[], random: Random): T => list[Math.floor(random() * list.length)] as T;

/** Changes one to four places of a document: replaced, removed, doubled, renamed or filled with something odd. */
function mangle(document: unknown, random: Random): unknown {
  const copy: unknown = structuredClone(document);
  const changes = 1 + Math.floor(random() * 4);
  for (let change = 0; change < changes; change += 1) mangleOnce(copy, random);
  return copy;
}

function mangleOnce(root: unknown, random: Random): void {
  let place = root;
  for (;;) {
    if (typeof place !== "object" || place === null) return;
    const keys = Object.keys(place);
    const name = keys.length === 0 ? "new" : pick(keys, random);
    const record = place as Record<string, unknown>;
    const next = record[name];
    if (typeof next === "object" && next !== null && random() < 0.8) {
      place = next;
      continue;
    }
    const choice = random();
    if (choice < 0.15) delete record[name];
    else if (choice < 0.3)
      record[pick(["__proto__x", "", "a/b~c", "metadata", "spec"], random)] = structuredClone(next);
    else record[name] = structuredClone(pick(oddities, random));
    return;
  }
}

const operations = ["CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT", "", "create"];

for (const [path, object] of endpoints)
  test(`${path} answers whatever comes`, async () => {
    const random = seededRandom(testSeed() + path.length);
    await using webhooks = await startTestWebhooks({ ...world, random });
    const rounds = count({ small: 250, full: 10_000 });
    const one = async () => {
      const operation = pick(operations, random);
      const request = {
        namespace: "ns",
        name: "p",
        operation,
        object: mangle(object, random),
        oldObject: random() < 0.7 ? mangle(object, random) : undefined,
        dryRun: random() < 0.5,
      };
      const review = buildReview(path, request);
      const body = JSON.stringify(random() < 0.2 ? mangle(review, random) : review);
      const { status, text } = await webhooks.send(`${path}?timeout=10s`, body);
      assert.equal(status, 200, body);
      const answer = JSON.parse(text) as {
        response: { allowed: boolean; status: { code: number; message?: string } };
      };
      assert.equal(typeof answer.response.allowed, "boolean");
      assert.notEqual(answer.response.status.code, 500, `${answer.response.status.message}\n${body}`);
      assert.notEqual(answer.response.status.code, 504, `${answer.response.status.message}\n${body}`);
    };
    for (let sent = 0; sent < rounds; sent += 10) await Promise.all(Array.from({ length: 10 }, one));
    const metrics = await webhooks.metrics();
    assert.doesNotMatch(metrics, /cocoon_colocation_failures_total\{/);
  });
