/** Every row about nodes, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { patched, startTestWebhooks, type TestWebhooksOptions } from "../testing/webhook-server.ts";

const ratio = "node.koordinator.sh/resource-amplification-ratio";
const raw = "node.koordinator.sh/raw-allocatable";

interface NodeObject {
  metadata: { name: string; annotations?: Record<string, string>; labels?: Record<string, string> };
  status?: { allocatable?: Record<string, string>; capacity?: Record<string, string> };
}

const node = (annotations: Record<string, string>, allocatable?: Record<string, string>): NodeObject => ({
  metadata: { name: "n", annotations },
  ...(allocatable ? { status: { allocatable, capacity: allocatable } } : {}),
});

async function update(
  object: NodeObject,
  oldObject: NodeObject,
): Promise<{ node: NodeObject; warnings: readonly string[] }> {
  await using webhooks = await startTestWebhooks({ featureGates: "NodeMutatingWebhook=true" });
  const response = await webhooks.ask("/mutate-node-status", { operation: "UPDATE", object, oldObject });
  assert.equal(response.allowed, true, "a kubelet's status is never refused");
  return { node: patched(object, response) as NodeObject, warnings: response.warnings ?? [] };
}

const base = { cpu: "64", memory: "256Gi", pods: "110" };

test("the rows of the amplification table", async () => {
  const cases: readonly [
    name: string,
    before: NodeObject,
    old: NodeObject,
    annotation: string | undefined,
    allocatable: object | undefined,
  ][] = [
    ["1: no ratio", node({ [raw]: "{}" }, base), node({}, base), undefined, base],
    ["1: empty ratio", node({ [ratio]: "", [raw]: "{}" }, base), node({}, base), undefined, base],
    ["2: no allocatable", node({ [ratio]: '{"cpu":2}' }), node({}), undefined, undefined],
    [
      "3: no base yet",
      node({ [ratio]: '{"cpu":2}' }, base),
      node({}, base),
      '{"cpu":"64","memory":"256Gi"}',
      { ...base, cpu: "128" },
    ],
    [
      "3: changed value",
      node(
        { [ratio]: '{"cpu":1.5,"memory":1.25}', [raw]: '{"cpu":"64","memory":"256Gi"}' },
        { cpu: "62", memory: "256Gi" },
      ),
      node({}, { cpu: "96", memory: "320Gi" }),
      '{"cpu":"62","memory":"256Gi"}',
      { cpu: "93", memory: "320Gi" },
    ],
    [
      "3: changed beside an amplified one",
      node(
        { [ratio]: '{"cpu":1.5,"memory":1.25}', [raw]: '{"cpu":"64","memory":"256Gi"}' },
        { cpu: "62", memory: "320Gi" },
      ),
      node({}, { cpu: "96", memory: "320Gi" }),
      '{"cpu":"62","memory":"320Gi"}',
      { cpu: "93", memory: "400Gi" },
    ],
    [
      "3: gone",
      node({ [ratio]: '{"cpu":2}', [raw]: '{"cpu":"64"}' }, { pods: "1" }),
      node({}, { cpu: "64", pods: "1" }),
      '{"cpu":"64"}',
      { pods: "1" },
    ],
    [
      "4: base kept",
      node({ [ratio]: '{"cpu":2}', [raw]: '{"cpu":"10"}' }, base),
      node({}, base),
      '{"cpu":"10"}',
      { ...base, cpu: "20" },
    ],
    ["4: base null", node({ [ratio]: "broken", [raw]: "null" }, base), node({}, base), "null", base],
    ["5: ratio null", node({ [ratio]: "null" }, base), node({}, base), '{"cpu":"64","memory":"256Gi"}', base],
    [
      "5: one ratio null",
      node({ [ratio]: '{"cpu":null,"memory":2}' }, base),
      node({}, base),
      '{"cpu":"64","memory":"256Gi"}',
      { ...base, memory: "512Gi" },
    ],
    [
      "6: not above 1",
      node({ [ratio]: '{"cpu":1,"memory":0.5}' }, base),
      node({}, base),
      '{"cpu":"64","memory":"256Gi"}',
      base,
    ],
    [
      "6: other resources",
      node({ [ratio]: '{"pods":2}' }, base),
      node({}, base),
      '{"cpu":"64","memory":"256Gi"}',
      base,
    ],
    [
      "6: a fraction of a byte",
      node({ [ratio]: '{"memory":1.2}' }, base),
      node({}, base),
      '{"cpu":"64","memory":"256Gi"}',
      { ...base, memory: "329853488332800m" },
    ],
  ];
  for (const [name, before, old, annotation, allocatable] of cases) {
    const { node: after } = await update(before, old);
    assert.equal(after.metadata.annotations?.[raw], annotation, name);
    assert.deepEqual(after.status?.allocatable, allocatable, name);
    assert.deepEqual(after.status?.capacity, before.status?.capacity, "capacity never changes");
  }
});

test("what cannot be read leaves the node as it is, with a warning", async () => {
  const broken = [
    node({ [ratio]: '{"cpu":"1.5"}' }, base),
    node({ [ratio]: " " }, base),
    node({ [ratio]: "[]" }, base),
    node({ [ratio]: '{"cpu":1e400}' }, base),
    node({ [ratio]: '{"cpu":2}', [raw]: "x" }, base),
    node({ [ratio]: '{"cpu":1e18}' }, base),
  ];
  for (const each of broken) {
    const { node: after, warnings } = await update(each, node({}, base));
    assert.deepEqual(after.status, each.status, JSON.stringify(each.metadata));
    assert.match(warnings[0] ?? "", /^node not amplified: /);
  }
});

test("only updates act", async () => {
  await using webhooks = await startTestWebhooks({ featureGates: "NodeMutatingWebhook=true" });
  const object = node({ [ratio]: '{"cpu":2}' }, base);
  assert.equal((await webhooks.ask("/mutate-node-status", { object })).patch, undefined);
});

const labelled = (labels: Record<string, string>, annotations: Record<string, string> = {}) => ({
  metadata: { name: "n", labels, annotations },
});
const profiles = (...names: readonly string[]) =>
  names.map((name) => ({ name, nodeSelector: { matchLabels: { [name]: "1" } } }));
const slo = (data: Record<string, unknown>): TestWebhooksOptions => ({
  featureGates: "NodeValidatingWebhook=true",
  configMaps: [
    {
      metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
      data: Object.fromEntries(
        Object.entries(data).map(([key, value]) => [
          key,
          typeof value === "string" ? value : JSON.stringify(value),
        ]),
      ),
    },
  ],
});

async function relabel(world: TestWebhooksOptions, object: object, oldObject: object | undefined) {
  const operation = oldObject ? "UPDATE" : "CREATE";
  await using webhooks = await startTestWebhooks(world);
  return await webhooks.ask("/validate-node", { operation, object, oldObject });
}

test("labels that put a node under two profiles of any key are refused", async () => {
  const both = labelled({ a: "1", b: "1" });
  const keys: readonly [string, unknown][] = [
    ["colocation-config", { nodeConfigs: profiles("a", "b") }],
    ["resource-threshold-config", { nodeStrategies: profiles("a", "b") }],
    ["resource-qos-config", { nodeStrategies: profiles("a", "b") }],
    ["system-config", { nodeStrategies: profiles("a", "b") }],
    ["cpu-burst-config", { nodeStrategies: profiles("a", "b") }],
  ];
  for (const [key, value] of keys) {
    const { status } = await relabel(slo({ [key]: value }), both, labelled({ a: "1" }));
    assert.equal(status.code, 400);
    assert.equal(
      status.message,
      `___{"reason":"ExistNodeConfict","message":{"config":"${key}","strategies":["a","b"],"exampleNodes":["n"]}}___`,
    );
  }
  const world = slo({ "colocation-config": { nodeConfigs: profiles("a", "b") } });
  assert.equal((await relabel(world, both, both)).allowed, true, "labels unchanged");
  assert.equal((await relabel(world, both, undefined)).allowed, true, "creation is only logged");
  assert.equal((await relabel(world, labelled({ a: "1" }), labelled({}))).allowed, true);
  assert.equal(
    (await relabel({ featureGates: "NodeValidatingWebhook=true" }, both, labelled({}))).allowed,
    true,
  );
  const broken = slo({ "colocation-config": "{", "system-config": { nodeStrategies: profiles("a") } });
  assert.equal((await relabel(broken, both, labelled({}))).allowed, true, "what does not parse is skipped");
});

test("the amplification annotation is bounded where it is set, never where it stays", async () => {
  const world: TestWebhooksOptions = {
    featureGates: "NodeValidatingWebhook=true",
    settings: { maxAmplificationRatio: 2 },
  };
  const set = (text: string) => labelled({}, { [ratio]: text });
  const cases: readonly [text: string, allowed: boolean][] = [
    ['{"cpu":2}', true],
    ['{"cpu":2.1}', false],
    ['{"memory":0.9}', false],
    ["broken", false],
    ["", true],
    ["null", true],
  ];
  for (const [text, allowed] of cases) {
    const response = await relabel(world, set(text), labelled({}));
    assert.equal(response.allowed, allowed, text);
    if (!allowed) assert.match(response.status.message ?? "", /resource-amplification-ratio/);
    assert.equal((await relabel(world, set(text), set(text))).allowed, true, "it was there before");
  }
  const unlimited = { featureGates: "NodeValidatingWebhook=true" };
  assert.equal((await relabel(unlimited, set('{"cpu":1000}'), labelled({}))).allowed, true);
  assert.equal((await relabel(unlimited, set('{"cpu":0.5}'), labelled({}))).allowed, false, "never below 1");
});
