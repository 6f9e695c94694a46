/** Every row of the tables about /validate-pod and /validate-pod-binding, over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ElasticQuota } from "../kinds.ts";
import { startTestWebhooks, type TestWebhooksOptions, type Response } from "../testing/webhook-server.ts";

const qos = "koordinator.sh/qosClass";
const bandPriority: Readonly<Record<string, number>> = {
  prod: 9000,
  mid: 7000,
  batch: 5000,
  free: 3000,
  none: 0,
};

const pod = (
  labels: object,
  { priority = 0, requests = {}, spec = {}, annotations = {}, namespace = "ns" } = {},
) => ({
  metadata: { name: "p", namespace, labels, annotations },
  spec: { priority, containers: [{ name: "c", resources: { requests } }], ...spec },
});

async function validate(world: TestWebhooksOptions, object: unknown, more: object = {}): Promise<Response> {
  await using webhooks = await startTestWebhooks(world);
  return await webhooks.ask("/validate-pod", { namespace: "ns", object, ...more });
}

/** The expected message, and where it matters more fields of the request. */
type Expected = string | readonly [message: string, more: object];

async function assertMessage(world: TestWebhooksOptions, object: unknown, expected: Expected): Promise<void> {
  const [message, more] = typeof expected === "string" ? [expected, {}] : expected;
  const response = await validate(world, object, more);
  assert.equal(response.allowed, false);
  assert.equal(response.status.code, 400);
  assert.equal(response.status.message, message);
}

test("the reserve-pod annotation is forbidden", async () => {
  const annotations = { "scheduling.koordinator.sh/reserve-pod": "" };
  await assertMessage(
    {},
    pod({ [qos]: "BE" }, { annotations }),
    "annotations.scheduling.koordinator.sh/reserve-pod: Forbidden: cannot set in annotations",
  );
});

test("the matrix of QoS and priority", async () => {
  const ok: Readonly<Record<string, readonly string[]>> = {
    LSR: ["prod"],
    BE: ["mid", "batch", "free"],
    LSE: ["prod", "mid", "batch", "free", "none"],
    LS: ["prod", "mid", "batch", "free", "none"],
    SYSTEM: ["prod", "mid", "batch", "free", "none"],
    unknown: ["prod", "mid", "batch", "free", "none"],
  };
  await using webhooks = await startTestWebhooks();
  for (const [label, allowed] of Object.entries(ok))
    for (const [band, priority] of Object.entries(bandPriority)) {
      const object = pod({ [qos]: label }, { priority, requests: { cpu: "2" } });
      const { allowed: passed, status } = await webhooks.ask("/validate-pod", { namespace: "ns", object });
      assert.equal(passed, allowed.includes(band), `${label} with ${band}`);
      const name = band === "none" ? "" : `koord-${band}`;
      const text = `Pod: Forbidden: koordinator.sh/qosClass=${label} and priorityClass=${name} cannot be used in combination`;
      if (!passed) assert.equal(status.message, text);
    }
});

test("the label priority-class decides over the priority, and an unknown one means none", async () => {
  const label = "koordinator.sh/priority-class";
  assert.equal(
    (await validate({}, pod({ [qos]: "BE", [label]: "koord-batch" }, { priority: 9000 }))).allowed,
    true,
  );
  await assertMessage(
    {},
    pod({ [qos]: "BE", [label]: "x" }, { priority: 5000 }),
    "Pod: Forbidden: koordinator.sh/qosClass=BE and priorityClass= cannot be used in combination",
  );
});

test("batch resources need QoS BE", async () => {
  const message =
    "labels.koordinator.sh/qosClass: Required value: must specify koordinator QoS BE with koordinator colocation resources";
  await assertMessage({}, pod({}, { requests: { "kubernetes.io/batch-cpu": "1" } }), message);
  await assertMessage({}, pod({ [qos]: "LS" }, { requests: { "kubernetes.io/batch-memory": "1" } }), message);
  assert.equal((await validate({}, pod({}, { requests: { "kubernetes.io/batch-cpu": "0" } }))).allowed, true);
  const be = pod({ [qos]: "BE" }, { priority: 5000, requests: { "kubernetes.io/batch-cpu": "1" } });
  assert.equal((await validate({}, be)).allowed, true);
});

test("LSR and LSE ask for whole CPUs", async () => {
  const path = "pod.spec.containers[*].resources.requests";
  const missing = `${path}: Required value: LSR Pod must declare the requested CPUs`;
  const broken = (text: string) =>
    `${path}: Invalid value: "${text}": the requested CPUs of LSR Pod must be integer`;
  await assertMessage({}, pod({ [qos]: "LSR" }, { priority: 9000 }), missing);
  await assertMessage({}, pod({ [qos]: "LSE" }), missing);
  await assertMessage({}, pod({ [qos]: "LSE" }, { requests: { cpu: "1500m" } }), broken("1500m"));
  assert.equal((await validate({}, pod({ [qos]: "LSE" }, { requests: { cpu: "2" } }))).allowed, true);
  const podLevel = { resources: { requests: { cpu: "2" } } };
  assert.equal(
    (await validate({}, pod({ [qos]: "LSE" }, { requests: { cpu: "1500m" }, spec: podLevel }))).allowed,
    true,
  );
  await assertMessage(
    {},
    pod({ [qos]: "LSE" }, { requests: { cpu: "1" }, spec: { overhead: { cpu: "100m" } } }),
    broken("1100m"),
  );
  const init = { initContainers: [{ name: "i", resources: { requests: { cpu: "2500m" } } }] };
  await assertMessage({}, pod({ [qos]: "LSE" }, { requests: { cpu: "1" }, spec: init }), broken("2500m"));
  const sidecar = {
    initContainers: [{ name: "s", restartPolicy: "Always", resources: { requests: { cpu: "500m" } } }],
  };
  await assertMessage({}, pod({ [qos]: "LSE" }, { requests: { cpu: "1" }, spec: sidecar }), broken("1500m"));
});

test("several broken rules of one group are reported together", async () => {
  const response = await validate({}, pod({ [qos]: "LSR" }, { priority: 5000 }));
  assert.equal(
    response.status.message,
    "[Pod: Forbidden: koordinator.sh/qosClass=LSR and priorityClass=koord-batch cannot be used in combination, pod.spec.containers[*].resources.requests: Required value: LSR Pod must declare the requested CPUs]",
  );
});

test("QoS, class and sub-priority of a pod stay as they were", async () => {
  const update = (oldObject: object) => ({ operation: "UPDATE", oldObject });
  const sub = "koordinator.sh/priority";
  await assertMessage({}, pod({ [qos]: "LS" }), [
    'labels.koordinator.sh/qosClass: Invalid value: "LS": field is immutable',
    update(pod({})),
  ]);
  assert.equal((await validate({}, pod({ [qos]: "x" }), update(pod({ [qos]: "y" })))).allowed, true);
  await assertMessage({}, pod({}, { priority: 5000 }), [
    'spec.priority: Invalid value: "koord-batch": field is immutable',
    update(pod({}, { priority: 9000 })),
  ]);
  assert.equal(
    (await validate({}, pod({}, { priority: 5001 }), update(pod({}, { priority: 5000 })))).allowed,
    true,
  );
  const message = 'labels.koordinator.sh/priority: Invalid value: "2": field is immutable';
  await assertMessage({}, pod({ [sub]: "2" }), [message, update(pod({ [sub]: "1" }))]);
  const gated = { featureGates: "ColocationProfileSkipValidatingPriority=true" };
  assert.equal((await validate(gated, pod({ [sub]: "2" }), update(pod({ [sub]: "1" })))).allowed, true);
});

const label = (name: string) => `quota.scheduling.koordinator.sh/${name}`;
const quota = (
  name: string,
  { namespace = "q", labels = {}, annotations = {}, max = {} } = {},
): ElasticQuota => ({
  metadata: { name, namespace, labels, annotations },
  spec: { max, min: {} },
});

test("a pod does not belong to a parent quota", async () => {
  const isParent = { [label("is-parent")]: "true" };
  const quotas = [
    quota("big", { labels: isParent }),
    quota("ns", { namespace: "ns", labels: isParent }),
    quota("bound", { labels: isParent, annotations: { [label("namespaces")]: '["there"]' } }),
  ];
  const text = (name: string) => `pod can not be linked to a parentQuotaGroup,quota:${name}, pod:p`;
  await assertMessage({ quotas }, pod({ [label("name")]: "big" }, { namespace: "x" }), text("big"));
  await assertMessage({ quotas }, pod({}), text("ns"));
  await assertMessage({ quotas }, pod({}, { namespace: "there" }), text("bound"));
  assert.equal((await validate({ quotas }, pod({ [label("name")]: "unknown" }))).allowed, true);
  assert.equal((await validate({ quotas, featureGates: "DisableDefaultQuota=true" }, pod({}))).allowed, true);
  assert.equal(
    (await validate({ quotas, featureGates: "SupportParentQuotaSubmitPod=true" }, pod({}))).allowed,
    true,
  );
  const without = pod({}, { namespace: "" });
  assert.equal(
    (await validate({ quotas }, without)).allowed,
    true,
    "the request's namespace does not count here",
  );
});

test("the preemptible label may not change, whatever the gates", async () => {
  const more = { operation: "UPDATE", oldObject: pod({}) };
  const object = pod({ [label("preemptible")]: "false" });
  const message = "Preemptible label is forbidden modify now.";
  await assertMessage({}, object, [message, more]);
  await assertMessage({ featureGates: "SupportParentQuotaSubmitPod=true" }, object, [message, more]);
});

const admitting = "EnableQuotaAdmission=true";
const wanting = (name: string, cpu = "2") => pod({ [label("name")]: name }, { requests: { cpu } });

test("quota admission: what is used and requested must stay within the limit", async () => {
  const used = { [label("child-request")]: '{"cpu":"9"}' };
  const quotas = [
    quota("full", { max: { cpu: "10" }, annotations: used }),
    quota("raised", { max: { cpu: "10" }, annotations: { ...used, [label("admission")]: '{"cpu":"20"}' } }),
    quota("other", { max: { "example.com/x": "0" } }),
    quota("twin", { max: { cpu: "10" } }),
    quota("twin", { namespace: "elsewhere", max: { cpu: "10" } }),
  ];
  const world = { featureGates: admitting, quotas };
  await assertMessage(
    world,
    wanting("full"),
    "exceeded quota: q/full, requested: cpu=2, used: cpu=9, limited: cpu=10",
  );
  assert.equal((await validate(world, wanting("full", "1"))).allowed, true);
  assert.equal((await validate(world, wanting("raised"))).allowed, true);
  assert.equal((await validate(world, wanting("other"))).allowed, true, "none of its keys is judged");
  await assertMessage(world, wanting("unknown"), "elastic quota unknown not found");
  await assertMessage(world, wanting("twin"), "more than one elastic quota twin found");
  assert.equal((await validate(world, pod({}, { requests: { cpu: "99" } }))).allowed, true, "default quota");
  assert.equal((await validate({ quotas }, wanting("full"))).allowed, true, "gate off");
  const done = { ...wanting("full"), status: { phase: "Succeeded" } };
  assert.equal((await validate(world, done)).allowed, true, "a terminal pod costs nothing");
});

test("quota admission counts stored pods where no writer did, also under prefixed names", async () => {
  const stored = {
    metadata: { ...wanting("x").metadata, uid: "u", labels: { [label("name")]: "new" } },
    spec: wanting("x").spec,
  };
  const world = {
    featureGates: admitting,
    quotas: [quota("new", { max: { "requests.cpu": "3" } })],
    pods: [stored],
  };
  await assertMessage(
    world,
    wanting("new"),
    "exceeded quota: q/new, requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3",
  );
  assert.equal((await validate(world, wanting("new", "1"))).allowed, true);
  const done = { ...stored, status: { phase: "Failed" } };
  assert.equal((await validate({ ...world, pods: [done] }, wanting("new"))).allowed, true);
});

test("quota admission writes what it took, and nothing on a dry run", async () => {
  await using webhooks = await startTestWebhooks({
    featureGates: admitting,
    quotas: [quota("a", { max: { cpu: "10" }, annotations: { [label("child-request")]: '{"cpu":"9"}' } })],
  });
  const childRequest = () => webhooks.quotas[0]?.metadata.annotations?.[label("child-request")];
  const ask = (dryRun: boolean) =>
    webhooks.ask("/validate-pod", { namespace: "ns", object: wanting("a", "1"), dryRun });
  assert.equal((await ask(true)).allowed, true);
  assert.equal(childRequest(), '{"cpu":"9"}');
  assert.equal((await ask(false)).allowed, true);
  assert.equal(childRequest(), '{"cpu":"10"}');
});

test("quota admission on update only behind its gate, and only when the quota changes", async () => {
  const quotas = [quota("full", { max: { cpu: "1" } })];
  const both = `${admitting},EnableQuotaAdmissionOnUpdate=true`;
  const from = (name: string) => ({ operation: "UPDATE", oldObject: wanting(name) });
  assert.equal(
    (await validate({ quotas, featureGates: admitting }, wanting("full"), from("x"))).allowed,
    true,
  );
  assert.equal((await validate({ quotas, featureGates: both }, wanting("full"), from("full"))).allowed, true);
  assert.equal((await validate({ quotas, featureGates: both }, wanting("full"), from("x"))).allowed, false);
});

test("GPU requests must make sense", async () => {
  const featureGates = "ValidatePodDeviceResource=true";
  const at = "pod.spec.containers[*].resources.requests";
  const gpu = (name: string) => `koordinator.sh/${name}`;
  const cases: readonly [requests: object, message: string | undefined][] = [
    [
      { [gpu("gpu")]: "100", [gpu("gpu.shared")]: "1", [gpu("gpu-memory")]: "1" },
      "Forbidden: Forbidden declare GPU and GPU share at same time",
    ],
    [{ [gpu("gpu")]: "0" }, 'Invalid value: "0": the requested GPU must be greater than zero'],
    [{ [gpu("gpu")]: "150" }, 'Invalid value: "150": the requested GPU must be percentage of 100'],
    [{ [gpu("gpu")]: "50" }, undefined],
    [{ [gpu("gpu")]: "200" }, undefined],
    [{ [gpu("gpu.shared")]: "0" }, 'Invalid value: "0": the requested gpu.shared must be greater than zero'],
    [{ [gpu("gpu.shared")]: "1" }, "Forbidden: gpuMemory and gpuMemoryRatio are both zero"],
    [{ [gpu("gpu.shared")]: "1", "huawei.com/npu-core": "1" }, undefined],
    [
      { [gpu("gpu.shared")]: "1", [gpu("gpu-memory")]: "1", [gpu("gpu-memory-ratio")]: "1" },
      "Forbidden: Forbidden declare gpuMemory and gpuMemoryRatio at same time",
    ],
    [
      { [gpu("gpu.shared")]: "2", [gpu("gpu-core")]: "3", [gpu("gpu-memory")]: "1" },
      'Invalid value: "3": the requested gpuCore must multiple of shared',
    ],
    [
      { [gpu("gpu.shared")]: "2", [gpu("gpu-memory-ratio")]: "3" },
      'Invalid value: "3": the requested gpuMemoryRatio must multiple of shared',
    ],
    [{ [gpu("gpu.shared")]: "2", [gpu("gpu-core")]: "4", [gpu("gpu-memory-ratio")]: "4" }, undefined],
  ];
  for (const [requests, message] of cases) {
    const { allowed, status } = await validate({ featureGates }, pod({}, { requests }));
    assert.equal(
      allowed ? undefined : status.message,
      message && `${at}: ${message}`,
      JSON.stringify(requests),
    );
    assert.equal((await validate({}, pod({}, { requests }))).allowed, true, "gate off");
  }
});

test("required labels", async () => {
  const rules = [
    { name: "r", requiredLabels: ["a"], namespaceWhitelist: ["free"] },
    { name: "s", requiredLabels: ["b", "c"] },
  ];
  const map = (data: Record<string, string>) => ({
    featureGates: "EnablePodEnhancedValidator=true",
    configMaps: [
      { metadata: { name: "pod-enhanced-validator-config", namespace: "koordinator-system" }, data },
    ],
  });
  const on = map({ enable: " TRUE ", rules: JSON.stringify(rules) });
  await assertMessage(on, pod({ b: "1", c: "1" }), "required label 'a' is missing");
  await assertMessage(on, pod({ a: "1" }), "required labels are missing: [b c]");
  assert.equal((await validate(on, pod({ a: "", b: "", c: "" }))).allowed, true);
  assert.equal((await validate(on, pod({ b: "", c: "" }, { namespace: "free" }))).allowed, true);
  assert.equal(
    (await validate(on, pod({ "pod.koordinator.sh/skip-enhanced-validation": "true" }))).allowed,
    true,
  );
  assert.equal(
    (await validate(map({ enable: "false", rules: JSON.stringify(rules) }), pod({}))).allowed,
    true,
  );
  assert.equal((await validate(map({ enable: "true", rules: "{" }), pod({}))).allowed, true);
});

test("a pod that names a reservation fits its unallocated part, behind a gate", async () => {
  const named = (name: string, cpu: string) =>
    pod(
      {},
      {
        requests: { cpu },
        annotations: { "scheduling.koordinator.sh/reservation-affinity": JSON.stringify({ name }) },
      },
    );
  const reservations = [
    {
      metadata: { name: "r" },
      status: { phase: "Available", allocatable: { cpu: "4" }, allocated: { cpu: "3" } },
    },
    {
      metadata: { name: "new" },
      spec: { template: { spec: { containers: [{ name: "c", resources: { requests: { cpu: "2" } } }] } } },
    },
    { metadata: { name: "over" }, status: { phase: "Failed", allocatable: { cpu: "4" } } },
  ];
  const on = { featureGates: "ReservationFit=true", reservations };
  const at = "annotations.scheduling.koordinator.sh/reservation-affinity";
  await assertMessage(
    on,
    named("r", "2"),
    `${at}: Invalid value: "r": the pod does not fit the unallocated part: cpu 2 of 1`,
  );
  assert.equal((await validate(on, named("r", "1"))).allowed, true);
  assert.equal((await validate(on, named("new", "2"))).allowed, true);
  assert.equal((await validate(on, named("new", "3"))).allowed, false);
  await assertMessage(on, named("gone", "1"), `${at}: Not found: reservation "gone"`);
  await assertMessage(
    on,
    named("over", "1"),
    `${at}: Invalid value: "over": the reservation is over (Failed)`,
  );
  assert.equal((await validate({ reservations }, named("r", "2"))).allowed, true, "gate off");
});

test("the decisions about bindings", async () => {
  const base = {
    users: ["sched"],
    dryRun: false,
    namespaces: ["*"],
    excludedNamespaces: ["kube-system"],
    bypassLabels: ["skip"],
    bypassAnnotations: ["skip"],
  };
  const cases: readonly [
    decision: string | undefined,
    binding: object,
    request: object,
    allowed: boolean,
    gate?: string,
  ][] = [
    [undefined, {}, {}, true, ""],
    [undefined, { users: [] }, {}, true],
    [undefined, {}, { operation: "UPDATE" }, true],
    ["allowed_username", {}, { userInfo: { username: "system:my-scheduler" } }, true],
    ["excluded_ns", {}, { namespace: "kube-system" }, true],
    [undefined, { namespaces: [] }, {}, true],
    ["out_of_scope", { namespaces: ["other"] }, {}, true],
    ["denied", { namespaces: ["web"] }, {}, false],
    [undefined, {}, { name: "unknown" }, true],
    ["bypass_label", {}, { name: "labelled" }, true],
    ["bypass_annotation", {}, { name: "annotated" }, true],
    ["dry_run", { dryRun: true }, {}, true],
    ["denied", {}, {}, false],
  ];
  for (const [decision, binding, request, allowed, gate = "BindingAdmissionWebhook=true"] of cases) {
    await using webhooks = await startTestWebhooks({
      featureGates: gate,
      settings: { binding: { ...base, ...binding } },
      pods: [
        { metadata: { name: "a", namespace: "web" } },
        { metadata: { name: "labelled", namespace: "web", labels: { skip: "" } } },
        { metadata: { name: "annotated", namespace: "web", annotations: { skip: "" } } },
      ],
    });
    const reviewed = { namespace: "web", name: "a", userInfo: { username: "eve" }, object: {}, ...request };
    const response = await webhooks.ask("/validate-pod-binding", reviewed);
    assert.equal(response.allowed, allowed, JSON.stringify([decision, binding, request]));
    const counted = /binding_admission_decisions_total\{decision="(\w+)"\} 1/.exec(
      await webhooks.metrics(),
    )?.[1];
    assert.equal(counted, decision);
  }
});
