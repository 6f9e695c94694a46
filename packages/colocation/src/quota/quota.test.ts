/** Every row about ElasticQuotas, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pod } from "@cocoon/kube";
import type { ElasticQuota } from "../kinds.ts";
import { patched, startTestWebhooks, type TestWebhooksOptions } from "../testing/webhook-server.ts";

const key = (name: string) => `quota.scheduling.koordinator.sh/${name}`;
const mutatePath = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
const validatePath = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
const root = "koordinator-root-quota";

interface Shape {
  readonly min?: Record<string, string>;
  readonly max?: Record<string, string>;
  readonly used?: Record<string, string>;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
}

/** Labels and annotations without their prefix. */
function quota(
  name: string,
  { min = {}, max = { cpu: "100" }, used, labels = {}, annotations = {} }: Shape = {},
): ElasticQuota {
  const prefixed = (texts: Record<string, string>) =>
    Object.fromEntries(Object.entries(texts).map(([each, value]) => [key(each), value]));
  return {
    metadata: { name, namespace: "q", labels: prefixed(labels), annotations: prefixed(annotations) },
    spec: { min, max },
    ...(used ? { status: { used } } : {}),
  };
}

const parent = (name: string, shape: Shape = {}) =>
  quota(name, { ...shape, labels: { "is-parent": "true", ...shape.labels } });

test("mutation fills in parent, tree and weight", async () => {
  const world = { quotas: [parent("team", { labels: { "tree-id": "t1" } }), parent("plain")] };
  const cases: readonly [name: string, object: ElasticQuota, labels: object, weight: string][] = [
    ["defaults", quota("a"), { parent: root }, '{"cpu":"100"}'],
    [
      "tree of the parent",
      quota("a", { labels: { parent: "team" } }),
      { parent: "team", "tree-id": "t1" },
      '{"cpu":"100"}',
    ],
    [
      "own tree stays",
      quota("a", { labels: { parent: "team", "tree-id": "t2" } }),
      { parent: "team", "tree-id": "t2" },
      '{"cpu":"100"}',
    ],
    [
      "parent without tree",
      quota("a", { labels: { parent: "plain" } }),
      { parent: "plain" },
      '{"cpu":"100"}',
    ],
    [
      "weight with the same keys stays",
      quota("a", { annotations: { "shared-weight": '{"cpu": "1"}' } }),
      { parent: root },
      '{"cpu": "1"}',
    ],
    [
      "weight is aligned",
      quota("a", {
        max: { cpu: "1", memory: "2Gi" },
        annotations: { "shared-weight": '{"cpu":"7","x":"1"}' },
      }),
      { parent: root },
      '{"cpu":"7","memory":"2Gi"}',
    ],
  ];
  for (const [name, object, labels, weight] of cases) {
    await using webhooks = await startTestWebhooks(world);
    const response = await webhooks.ask(mutatePath, { object, name: object.metadata.name });
    const { metadata } = patched(object, response) as ElasticQuota;
    const wanted = Object.fromEntries(
      Object.entries(labels).map(([each, value]) => [key(each), value as string]),
    );
    assert.deepEqual(metadata.labels, wanted, name);
    assert.equal(metadata.annotations?.[key("shared-weight")], weight, name);
  }
});

test("mutation: no max, the root, and what is refused", async () => {
  await using webhooks = await startTestWebhooks();
  const bare = { metadata: { name: "a", namespace: "q" }, spec: {} };
  const filled = patched(bare, await webhooks.ask(mutatePath, { object: bare })) as ElasticQuota;
  assert.equal(filled.metadata.annotations?.[key("shared-weight")], "null");
  assert.equal((await webhooks.ask(mutatePath, { object: quota(root) })).patch, undefined);
  const orphan = await webhooks.ask(mutatePath, { object: quota("a", { labels: { parent: "unknown" } }) });
  assert.equal(orphan.status.code, 400);
  assert.equal(orphan.status.message, "fill quota a failed, parent not exist");
  const broken = await webhooks.ask(mutatePath, {
    object: quota("a", { annotations: { "shared-weight": "{" } }),
  });
  assert.equal(broken.status.code, 400);
  assert.match(broken.status.message ?? "", /^fillDefaultQuotaInfo unmarshal sharedWeight failed:/);
  const nothing = quota("a", { annotations: { "shared-weight": "null" } });
  const aligned = patched(nothing, await webhooks.ask(mutatePath, { object: nothing })) as ElasticQuota;
  assert.equal(aligned.metadata.annotations?.[key("shared-weight")], '{"cpu":"100"}');
  await webhooks.ask(mutatePath, { object: quota("a") });
  const text = await webhooks.metrics();
  assert.ok(text.includes('quota_shared_weight{elasticquota_name="a",resource_name="cpu"} 100'));
});

interface Case {
  readonly name: string;
  readonly quotas?: readonly ElasticQuota[];
  readonly pods?: readonly Pod[];
  readonly gates?: string;
  readonly create?: ElasticQuota;
  readonly update?: readonly [from: ElasticQuota, to: ElasticQuota];
  readonly remove?: ElasticQuota;
  readonly message?: string;
}

async function check({ name, quotas = [], pods = [], gates = "", message, ...request }: Case): Promise<void> {
  const world: TestWebhooksOptions = { quotas, pods, featureGates: gates };
  await using webhooks = await startTestWebhooks(world);
  const { create, update, remove } = request;
  const [operation, object, oldObject] = create
    ? ["CREATE", create, undefined]
    : update
      ? ["UPDATE", update[1], update[0]]
      : ["DELETE", undefined, remove];
  const subject = object ?? oldObject;
  const response = await webhooks.ask(validatePath, {
    operation,
    object,
    oldObject,
    name: subject?.metadata.name,
    namespace: "q",
  });
  assert.equal(response.allowed ? undefined : response.status.message, message, name);
  if (message !== undefined) assert.equal(response.status.code, 400, name);
}

test("creating", async () => {
  const bound = quota("b", { annotations: { namespaces: '["n1"]' } });
  const cases: readonly Case[] = [
    { name: "new", create: quota("a") },
    { name: "known", quotas: [quota("a")], create: quota("a"), message: "AddQuota quota already exist:a" },
    {
      name: "namespace taken",
      quotas: [bound],
      create: quota("a", { annotations: { namespaces: '["n1"]' } }),
      message: "AddQuota quota a's annotation namespace n1 is already bound to quota b",
    },
    {
      name: "namespaces unparsable",
      quotas: [bound],
      create: quota("a", { annotations: { namespaces: "[" } }),
    },
    { name: "the default quota can be created", create: quota("koordinator-default-quota") },
  ];
  for (const each of cases) await check(each);
});

test("what must hold of a quota by itself", async () => {
  const weight = key("shared-weight");
  const strict = (used: Record<string, string>, max: Record<string, string>) =>
    quota("a", { max, used, annotations: { "max-strict-check-resource-keys": '["cpu"]' } });
  const cases: readonly Case[] = [
    ...['["cpu"', "cpu", '{"cpu":true}', "[1]"].map((text) => ({
      name: `strict keys ${text}`,
      create: quota("a", { annotations: { "max-strict-check-resource-keys": text } }),
      message: `a quota.Annotation[${key("max-strict-check-resource-keys")}]: ${JSON.stringify(text)} is not a JSON array of strings`,
    })),
    {
      name: "max",
      create: quota("a", { max: { cpu: "-1" } }),
      message: "a quota.Spec.Max's value < 0, in dimensions :[cpu]",
    },
    {
      name: "min",
      create: quota("a", { min: { cpu: "-1" } }),
      message: "a quota.Spec.Min's value < 0, in dimensions :[cpu]",
    },
    {
      name: "weight",
      create: quota("a", { annotations: { "shared-weight": '{"cpu":"-1"}' } }),
      message: `a quota.Annotation[${weight}]'s value < 0, in dimension :[cpu]`,
    },
    {
      name: "min without max",
      create: quota("a", { min: { memory: "1" } }),
      message: "resourceKey memory of quota a is included in min, which is not included in max",
    },
    {
      name: "min over max",
      create: quota("a", { min: { cpu: "101" } }),
      message: "resourceKey cpu of quota a min 101 > max 100",
    },
    {
      name: "used without max",
      create: strict({ cpu: "1" }, { memory: "1" }),
      message:
        "resourceKey cpu of quota a is included in used, which is not included in max but should check max >= used",
    },
    {
      name: "used over max",
      create: strict({ cpu: "2" }, { cpu: "1" }),
      message: "resourceKey cpu of quota a max 1 < used 2",
    },
    { name: "used within max", create: strict({ cpu: "1" }, { cpu: "1" }) },
  ];
  for (const each of cases) await check(each);
});

const team = parent("team", { min: { cpu: "10" } });
const one = quota("one", { min: { cpu: "6" }, labels: { parent: "team" } });
const keyText = "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: ";

test("how a new quota fits into the tree", async () => {
  const tree = parent("tree", { labels: { "tree-id": "t1" } });
  const cases: readonly Case[] = [
    {
      name: "parent unknown",
      create: quota("a", { labels: { parent: "x" } }),
      message: "a has parentName x but not find parentInfo in quotaInfoMap",
    },
    {
      name: "parent is none",
      quotas: [quota("leaf")],
      create: quota("a", { labels: { parent: "leaf" } }),
      message: "a has parentName leaf but the parentQuotaInfo's IsParent is false",
    },
    {
      name: "tree differs",
      quotas: [tree],
      create: quota("a", { labels: { parent: "tree", "tree-id": "t2" } }),
      message: "a tree id is different from parent tree, [t2] vs [t1]",
    },
    {
      name: "max keys differ",
      quotas: [team],
      create: quota("a", { max: { memory: "1" }, labels: { parent: "team" } }),
      message: `${keyText}team's max keys are not the same with a's`,
    },
    {
      name: "fewer max keys behind a gate",
      gates: "ElasticQuotaEnableUpdateResourceKey=true",
      quotas: [parent("wide", { max: { cpu: "1", memory: "1" } })],
      create: quota("a", { max: { cpu: "1" }, labels: { parent: "wide" } }),
    },
    {
      name: "min keys of no other quota",
      quotas: [parent("t", { max: { cpu: "9" } })],
      create: quota("a", { min: { cpu: "0" }, max: { cpu: "9" }, labels: { parent: "t" } }),
      message: `${keyText}a's min keys are not all included in t's`,
    },
    {
      name: "siblings together fit",
      quotas: [team, one],
      create: quota("a", { min: { cpu: "4" }, labels: { parent: "team" } }),
    },
    {
      name: "siblings together do not",
      quotas: [team, one],
      create: quota("a", { min: { cpu: "5" }, labels: { parent: "team" } }),
      message: "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: team",
    },
    {
      name: "forced",
      quotas: [team, one],
      create: quota("a", { min: { cpu: "5" }, labels: { parent: "team", "allow-force-update": "true" } }),
    },
    {
      name: "root of a tree",
      quotas: [team, one],
      create: quota("a", { min: { cpu: "5" }, labels: { parent: "team", "is-root": "true" } }),
    },
    {
      name: "child max beyond the parent's is Koordinator's way",
      quotas: [team],
      create: quota("a", { max: { cpu: "200" }, labels: { parent: "team" } }),
    },
    {
      name: "and refused behind our gate",
      gates: "ElasticQuotaChildMaxWithinParent=true",
      quotas: [team],
      create: quota("a", { max: { cpu: "200" }, labels: { parent: "team" } }),
      message: "a max is more than the max of its parent team, in dimensions :[cpu]",
    },
    {
      name: "its own parent",
      create: parent("a", { labels: { parent: "a" } }),
      message: "a has parentName a but not find parentInfo in quotaInfoMap",
    },
  ];
  for (const each of cases) await check(each);
});

test("updating", async () => {
  const up = parent("up", { labels: { parent: "down" } });
  const bound = quota("b", { annotations: { namespaces: '["n1"]' } });
  const createPod = (labels: Record<string, string>, namespace = "x"): Pod => ({
    metadata: { name: "p1", namespace, labels },
  });
  const toParent = (annotations: Record<string, string> = {}): [ElasticQuota, ElasticQuota] => [
    quota("a", { annotations }),
    parent("a", { annotations }),
  ];
  const boundPods = "quota has bound pods, isParent is forbidden to modify as true, quotaName: a";
  const cases: readonly Case[] = [
    {
      name: "unchanged is not checked",
      update: [
        quota("koordinator-system-quota", { labels: { a: "1" } }),
        quota("koordinator-system-quota", { labels: { a: "2" } }),
      ],
    },
    {
      name: "system",
      quotas: [quota("koordinator-system-quota")],
      update: [quota("koordinator-system-quota"), quota("koordinator-system-quota", { max: { cpu: "1" } })],
      message: "invalid quota koordinator-system-quota",
    },
    {
      name: "root",
      update: [quota(root), quota(root, { max: { cpu: "1" } })],
      message: `invalid quota ${root}`,
    },
    {
      name: "default may change",
      quotas: [quota("koordinator-default-quota")],
      update: [quota("koordinator-default-quota"), quota("koordinator-default-quota", { max: { cpu: "1" } })],
    },
    {
      name: "namespace taken",
      quotas: [quota("a"), bound],
      update: [quota("a"), quota("a", { annotations: { namespaces: '["n1"]' } })],
      message: "UpdadteQuota, quota a update namespaces, but namespace n1 is already bound to quota b",
    },
    {
      name: "unknown",
      update: [quota("a"), quota("a", { max: { cpu: "1" } })],
      message: "UpdateQuota quota not exist in quotaInfoMap:a",
    },
    {
      name: "no parent any more, with children",
      quotas: [team, one],
      update: [team, quota("team", { min: { cpu: "10" } })],
      message: "quota has children, isParent is forbidden to modify as false, quotaName:team",
    },
    { name: "becomes a parent, without pods", quotas: [quota("a")], update: toParent() },
    {
      name: "becomes a parent, with pods by label",
      quotas: [quota("a")],
      pods: [createPod({ [key("name")]: "a" })],
      update: toParent(),
      message: boundPods,
    },
    {
      name: "becomes a parent, with pods in its namespace",
      quotas: [quota("a")],
      pods: [createPod({}, "a")],
      update: toParent(),
      message: boundPods,
    },
    {
      name: "becomes a parent, with pods in a bound namespace",
      quotas: [quota("a", { annotations: { namespaces: '["n9"]' } })],
      pods: [createPod({}, "n9")],
      update: toParent({ namespaces: '["n9"]' }),
      message: boundPods,
    },
    {
      name: "tree changed",
      quotas: [quota("a")],
      update: [quota("a"), quota("a", { labels: { "tree-id": "t" } })],
      message: "a tree id changed [] vs [t]",
    },
    {
      name: "tree of a child",
      quotas: [parent("p", { labels: { "tree-id": "t" } }), quota("c", { labels: { parent: "p" } })],
      update: [
        parent("p", { labels: { "tree-id": "t" } }),
        parent("p", { max: { cpu: "1" }, labels: { "tree-id": "t" } }),
      ],
      message: "p tree id is different from child c, [t] vs []",
    },
    {
      name: "max keys of a child",
      quotas: [team, one],
      update: [team, parent("team", { min: { cpu: "10" }, max: { cpu: "100", memory: "1" } })],
      message: `${keyText}one's max keys are not the same with team's`,
    },
    {
      name: "min keys of a child",
      quotas: [team, one],
      update: [team, parent("team")],
      message: `${keyText}one's min keys are not all included in team's`,
    },
    {
      name: "children together",
      quotas: [team, one],
      update: [team, parent("team", { min: { cpu: "5" } })],
      message: "checkMinQuotaSum all children's MinQuota > current MinQuota, current: team",
    },
    {
      name: "children together still fit",
      quotas: [team, one],
      update: [team, parent("team", { min: { cpu: "6" } })],
    },
    {
      name: "its own ancestor",
      quotas: [parent("down"), up],
      update: [parent("down"), parent("down", { labels: { parent: "up" } })],
      message: "down cannot have parent up: it would become its own ancestor",
    },
    {
      name: "child max behind our gate",
      gates: "ElasticQuotaChildMaxWithinParent=true",
      quotas: [team, one],
      update: [team, parent("team", { min: { cpu: "10" }, max: { cpu: "50" } })],
      message: "max of child one is more than the max of team, in dimensions :[cpu]",
    },
  ];
  for (const each of cases) await check(each);
});

test("guarantees, behind their gate", async () => {
  const gates = "ElasticQuotaGuaranteeUsage=true";
  const tree = { "tree-id": "t" };
  const up = (guaranteed: string) =>
    parent("up", {
      min: { cpu: "10" },
      labels: tree,
      annotations: { guaranteed: `{"cpu":"${guaranteed}"}` },
    });
  const create = quota("a", { min: { cpu: "5" }, labels: { ...tree, parent: "up" } });
  const cases: readonly Case[] = [
    { name: "covered", gates, quotas: [up("10")], create },
    {
      name: "not covered",
      gates,
      quotas: [up("4")],
      create,
      message: "tree root quota up can't guarantee for min a",
    },
    { name: "gate off", quotas: [up("4")], create },
    {
      name: "own guarantee is enough",
      gates,
      quotas: [up("4")],
      create: quota("a", {
        min: { cpu: "5" },
        labels: { ...tree, parent: "up" },
        annotations: { guaranteed: '{"cpu":"5"}' },
      }),
    },
    {
      name: "forced",
      gates,
      quotas: [up("4")],
      create: quota("a", {
        min: { cpu: "5" },
        labels: { ...tree, parent: "up", "allow-force-update": "true" },
      }),
    },
  ];
  for (const each of cases) await check(each);
});

test("deleting", async () => {
  const pods = ["p1", "p2", "p3"].map((name): Pod => ({
    metadata: { name, namespace: "x", labels: { [key("name")]: "a" } },
  }));
  const cases: readonly Case[] = [
    ...[root, "koordinator-system-quota", "koordinator-default-quota"].map((name) => ({
      name,
      quotas: [quota(name)],
      remove: quota(name),
      message: `can not delete quotaGroup :${name}`,
    })),
    { name: "unknown", remove: quota("a"), message: "not found quota:a" },
    {
      name: "children",
      quotas: [team, one],
      remove: team,
      message: "delete quota failed, quota team has 1 child quotas",
    },
    {
      name: "pods",
      quotas: [quota("a")],
      pods,
      remove: quota("a"),
      message: "delete quota failed, quota a has 3 child pods: p1, p2, ...",
    },
    {
      name: "two pods",
      quotas: [quota("a")],
      pods: pods.slice(0, 2),
      remove: quota("a"),
      message: "delete quota failed, quota a has 2 child pods: p1, p2",
    },
    { name: "free", quotas: [quota("a")], remove: quota("a") },
  ];
  for (const each of cases) await check(each);
});
