/** What is around every rule: warn mode, limits, deadlines, failures, the audit log. */
import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { aborted, createLogger, Fault } from "@cocoon/core";
import { buildReview, startTestWebhooks } from "../testing/webhook-server.ts";
import { auditor } from "./middleware.ts";
import { ruleNames } from "../rules.ts";
import { readGates } from "../gates.ts";

const bePod = (priority: number) => ({
  metadata: { name: "p", namespace: "ns", labels: { "koordinator.sh/qosClass": "BE" } },
  spec: { priority, containers: [{ name: "c" }] },
});

test("a rule in warn mode admits, warns and counts; the others still refuse", async () => {
  await using webhooks = await startTestWebhooks({ settings: { warnRules: ["qos-priority-matrix"] } });
  const object = bePod(9000);
  const response = await webhooks.ask("/validate-pod", { object });
  assert.equal(response.allowed, true);
  assert.match(response.warnings?.[0] ?? "", /^qos-priority-matrix \(warn only\): Pod: Forbidden/);
  const metrics = await webhooks.metrics();
  assert.ok(
    metrics.includes(
      'cocoon_colocation_rule_violations_total{rule="qos-priority-matrix",outcome="warned"} 1',
    ),
  );
  const annotations = { "scheduling.koordinator.sh/reserve-pod": "" };
  const refused = await webhooks.ask("/validate-pod", {
    object: { ...object, metadata: { ...object.metadata, annotations } },
  });
  assert.equal(refused.allowed, false);
  assert.ok((await webhooks.metrics()).includes('rule="reserve-pod",outcome="refused"} 1'));
});

test("every rule can be put in warn mode at once", async () => {
  const featureGates =
    "NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,BindingAdmissionWebhook=true";
  const binding = {
    users: ["x"],
    dryRun: false,
    namespaces: ["*"],
    excludedNamespaces: [],
    bypassLabels: [],
    bypassAnnotations: [],
  };
  await using webhooks = await startTestWebhooks({
    featureGates,
    settings: { warnRules: ["*"], binding },
    pods: [{ metadata: { name: "a", namespace: "web" } }],
  });
  const cases: readonly [path: string, request: object][] = [
    ["/validate-pod", { object: bePod(9000) }],
    ["/validate-pod-binding", { object: {}, name: "a", namespace: "web" }],
    [
      "/validate-node",
      {
        object: {
          metadata: { name: "n", annotations: { "node.koordinator.sh/resource-amplification-ratio": "x" } },
        },
      },
    ],
    [
      "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
      { object: { metadata: { name: "a" }, spec: { max: { cpu: "-1" } } } },
    ],
    [
      "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
      { operation: "DELETE", oldObject: { metadata: { name: "a" } } },
    ],
    [
      "/validate-configmap",
      {
        object: {
          metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
          data: { "system-config": "{" },
        },
      },
    ],
  ];
  for (const [path, request] of cases) {
    const response = await webhooks.ask(path, { ...request });
    assert.equal(response.allowed, true, path);
    assert.match(response.warnings?.[0] ?? "", /\(warn only\)/, path);
  }
  assert.ok(ruleNames.length > 20);
});

test("a client over its rate is refused with 429; other clients and endpoints are not; Ignore endpoints let it through", async () => {
  await using webhooks = await startTestWebhooks({
    featureGates: "NodeMutatingWebhook=true",
    rateLimit: { perSecond: 1, burst: 2, nowMs: () => 0 },
  });
  const object = bePod(5000);
  const codes = [];
  for (let round = 0; round < 3; round += 1)
    codes.push((await webhooks.ask("/validate-pod", { object })).status.code);
  assert.deepEqual(codes, [200, 200, 429]);
  assert.equal(
    (await webhooks.ask("/validate-pod", { object, userInfo: { username: "bob" } })).allowed,
    true,
  );
  assert.equal((await webhooks.ask("/mutate-pod", { object })).allowed, true);
  const node = {
    object: { metadata: { name: "n" } },
    oldObject: { metadata: { name: "n" } },
    operation: "UPDATE",
  };
  for (let round = 0; round < 2; round += 1) await webhooks.ask("/mutate-node-status", node);
  const over = await webhooks.ask("/mutate-node-status", node);
  assert.equal(over.allowed, true);
  assert.match(over.warnings?.[0] ?? "", /rate limit/);
  const metrics = await webhooks.metrics();
  assert.ok(
    metrics.includes('cocoon_colocation_rate_limited_total{endpoint="validate-pod",outcome="refused"} 1'),
  );
  assert.ok(
    metrics.includes(
      'cocoon_colocation_rate_limited_total{endpoint="mutate-node-status",outcome="allowed"} 1',
    ),
  );
});

const profile = { metadata: { name: "a" }, spec: { namespaceSelector: { matchLabels: { a: "b" } } } };

test("a handler without an answer in time refuses under Fail and allows under Ignore", async () => {
  const binding = {
    users: ["x"],
    dryRun: false,
    namespaces: ["*"],
    excludedNamespaces: [],
    bypassLabels: [],
    bypassAnnotations: [],
  };
  const stuck = new AbortController();
  const never = () => aborted(stuck.signal).then(() => ({}));
  await using webhooks = await startTestWebhooks({
    featureGates: "BindingAdmissionWebhook=true",
    profiles: [profile],
    settings: { binding },
    view: { namespaceLabels: never, pod: () => never().then(() => undefined) },
  });
  const sent = (path: string, request: object) =>
    webhooks.post(`${path}?timeout=100ms`, buildReview(path, { namespace: "ns", name: "a", ...request }));
  const failed = (await sent("/mutate-pod", { object: bePod(5000) })).response;
  assert.equal(failed.allowed, false);
  assert.equal(failed.status.code, 504);
  assert.match(failed.status.message ?? "", /^mutate-pod: no decision within 0\.08 s, try again$/);
  const ignored = (await sent("/validate-pod-binding", { object: {} })).response;
  assert.equal(ignored.allowed, true);
  assert.match(ignored.warnings?.[0] ?? "", /allowed unchecked/);
  stuck.abort();
  const metrics = await webhooks.metrics();
  assert.match(metrics, /admission_requests_total\{handler="mutate-pod",result="expired"\} 1/);
  assert.match(metrics, /admission_requests_total\{handler="validate-pod-binding",result="expired"\} 1/);
});

test("a handler that fails refuses under Fail, allows under Ignore, and never answers 500 by HTTP", async () => {
  const binding = {
    users: ["x"],
    dryRun: false,
    namespaces: ["*"],
    excludedNamespaces: [],
    bypassLabels: [],
    bypassAnnotations: [],
  };
  const broken = () => Promise.reject(new Fault("unavailable", "the API server is away"));
  await using webhooks = await startTestWebhooks({
    featureGates: "BindingAdmissionWebhook=true",
    profiles: [profile],
    settings: { binding },
    view: { namespaceLabels: broken, pod: broken },
  });
  const refused = await webhooks.ask("/mutate-pod", { namespace: "ns", object: bePod(5000) });
  assert.equal(refused.status.code, 500);
  assert.match(refused.status.message ?? "", /could not be decided, try again/);
  const allowed = await webhooks.ask("/validate-pod-binding", { namespace: "ns", name: "a", object: {} });
  assert.equal(allowed.allowed, true);
  const metrics = await webhooks.metrics();
  assert.ok(metrics.includes('cocoon_colocation_failures_total{endpoint="mutate-pod",outcome="refused"} 1'));
  assert.ok(
    metrics.includes('cocoon_colocation_failures_total{endpoint="validate-pod-binding",outcome="allowed"} 1'),
  );
});

test("the audit log says who, what and how it ended, but no value of an object", async () => {
  const lines: Record<string, unknown>[] = [];
  const destination = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      lines.push(JSON.parse(chunk.toString("utf8")) as Record<string, unknown>);
      done();
    },
  });
  const log = createLogger({ name: "audit", level: "info", destination });
  const audit = auditor(log, "changes");
  await using webhooks = await startTestWebhooks({
    profiles: [{ metadata: { name: "a" }, spec: { labels: { tier: "hush-hush" } } }],
    server: { observe: audit },
  });
  const object = {
    metadata: { name: "p" },
    spec: { containers: [{ name: "c", env: [{ name: "PASSWORD", value: "hush-hush" }] }] },
  };
  await webhooks.ask("/mutate-pod", { object, namespace: "ns", name: "p", userInfo: { username: "alice" } });
  await webhooks.ask("/validate-pod", { object: bePod(9000), namespace: "ns", name: "p" });
  await webhooks.ask("/validate-pod", { object, namespace: "ns", name: "p" });
  assert.equal(lines.length, 2, "what was simply allowed is not logged");
  const [patched, denied] = lines;
  assert.equal(patched?.["endpoint"], "mutate-pod");
  assert.equal(patched?.["user"], "alice");
  assert.equal(patched?.["verdict"], "patch");
  assert.deepEqual(patched?.["patch"], ["add /metadata/labels"]);
  assert.equal(denied?.["verdict"], "deny");
  assert.equal(denied?.["code"], 400);
  assert.ok(!JSON.stringify(lines).includes("hush-hush"));
});

test("feature gates: defaults, unknown names, mistakes", () => {
  const { gates, unused } = readGates(
    " NodeMutatingWebhook=true , ColocationProfileController=true,PodMutatingWebhook=F",
  );
  assert.equal(gates.NodeMutatingWebhook, true);
  assert.equal(gates.PodMutatingWebhook, false);
  assert.deepEqual(unused, ["ColocationProfileController"]);
  const on = Object.entries(readGates("").gates)
    .filter(([, value]) => value)
    .map(([name]) => name);
  assert.deepEqual(on.toSorted(), [
    "ElasticMutatingWebhook",
    "ElasticValidatingWebhook",
    "PodMutatingWebhook",
    "PodValidatingWebhook",
    "WebhookFramework",
  ]);
  assert.throws(() => readGates("X"), /not of the form/);
});
