/** The worked reviews of the contract, sent as they are written and answered as they are written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import {
  patched,
  startTestWebhooks,
  type TestWebhooks,
  type TestWebhooksOptions,
} from "./testing/webhook-server.ts";

const quotaGroup = "scheduling.sigs.k8s.io";
const podType = {
  kind: { group: "", version: "v1", kind: "Pod" },
  resource: { group: "", version: "v1", resource: "pods" },
};

interface Example {
  readonly path: string;
  readonly world: TestWebhooksOptions;
  readonly version?: string;
  readonly request: Readonly<Record<string, unknown>> & { readonly uid: string; readonly object: unknown };
}

async function post({ path, world, version = "v1", request }: Example): ReturnType<TestWebhooks["post"]> {
  await using webhooks = await startTestWebhooks(world);
  return await webhooks.post(path, {
    apiVersion: `admission.k8s.io/${version}`,
    kind: "AdmissionReview",
    request,
  });
}

/** The answer is allowed with a patch that does what these operations do. */
async function assertPatched(example: Example, operations: readonly object[]): Promise<void> {
  const answer = await post(example);
  const { patch, ...response } = answer.response;
  assert.ok(patch);
  assert.deepEqual(
    { ...answer, response },
    {
      apiVersion: `admission.k8s.io/${example.version ?? "v1"}`,
      kind: "AdmissionReview",
      response: {
        uid: example.request.uid,
        allowed: true,
        status: { metadata: {}, code: 200 },
        patchType: "JSONPatch",
      },
    },
  );
  const { object } = example.request;
  assert.deepEqual(patched(object, answer.response), applyJsonPatch(object, operations as never));
}

async function assertRefused(example: Example, status: object): Promise<void> {
  assert.deepEqual(await post(example), {
    apiVersion: `admission.k8s.io/${example.version ?? "v1"}`,
    kind: "AdmissionReview",
    response: { uid: example.request.uid, allowed: false, status: { metadata: {}, ...status } },
  });
}

test("/mutate-pod: a profile makes a batch pod", async () => {
  const spec = {
    namespaceSelector: { matchLabels: { team: "data" } },
    selector: { matchLabels: { workload: "spark" } },
    qosClass: "BE",
    priorityClassName: "koord-batch",
    koordinatorPriority: 1000,
    schedulerName: "koord-scheduler",
    labels: { tier: "offline" },
    annotations: { by: "spark-be" },
  };
  const resources = { requests: { cpu: "1500m", memory: "2Gi" }, limits: { cpu: "4", memory: "3Gi" } };
  const extended =
    '{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"4k","kubernetes.io/batch-memory":"3Gi"},"requests":{"kubernetes.io/batch-cpu":"1500","kubernetes.io/batch-memory":"2Gi"}}}}';
  const at = "/spec/containers/0/resources";
  await assertPatched(
    {
      path: "/mutate-pod",
      world: { profiles: [{ metadata: { name: "spark-be" }, spec }], namespaces: { etl: { team: "data" } } },
      request: {
        uid: "p1",
        ...podType,
        namespace: "etl",
        operation: "CREATE",
        userInfo: { username: "system:serviceaccount:kube-system:replicaset-controller" },
        object: {
          metadata: { generateName: "exec-", labels: { workload: "spark" } },
          spec: {
            schedulerName: "default-scheduler",
            priority: 0,
            preemptionPolicy: "PreemptLowerPriority",
            containers: [{ name: "main", image: "spark", resources }],
          },
        },
      },
    },
    [
      { op: "add", path: "/metadata/labels/tier", value: "offline" },
      { op: "add", path: "/metadata/labels/koordinator.sh~1qosClass", value: "BE" },
      { op: "add", path: "/metadata/labels/koordinator.sh~1priority", value: "1000" },
      {
        op: "add",
        path: "/metadata/annotations",
        value: { by: "spark-be", "node.koordinator.sh/extended-resource-spec": extended },
      },
      { op: "replace", path: "/spec/schedulerName", value: "koord-scheduler" },
      { op: "replace", path: "/spec/priority", value: 5000 },
      { op: "add", path: "/spec/priorityClassName", value: "koord-batch" },
      { op: "add", path: `${at}/requests/kubernetes.io~1batch-cpu`, value: "1500" },
      { op: "add", path: `${at}/requests/kubernetes.io~1batch-memory`, value: "2Gi" },
      { op: "remove", path: `${at}/requests/cpu` },
      { op: "remove", path: `${at}/requests/memory` },
      { op: "add", path: `${at}/limits/kubernetes.io~1batch-cpu`, value: "4k" },
      { op: "add", path: `${at}/limits/kubernetes.io~1batch-memory`, value: "3Gi" },
      { op: "remove", path: `${at}/limits/cpu` },
      { op: "remove", path: `${at}/limits/memory` },
    ],
  );
});

test("/validate-pod: BE does not go with prod", async () => {
  const metadata = { name: "w-1", namespace: "etl", labels: { "koordinator.sh/qosClass": "BE" } };
  await assertRefused(
    {
      path: "/validate-pod",
      world: {},
      request: {
        uid: "p2",
        ...podType,
        namespace: "etl",
        name: "w-1",
        operation: "CREATE",
        userInfo: { username: "alice" },
        object: {
          metadata,
          spec: { priority: 9500, containers: [{ name: "c", image: "i", resources: {} }] },
        },
      },
    },
    {
      message:
        "Pod: Forbidden: koordinator.sh/qosClass=BE and priorityClass=koord-prod cannot be used in combination",
      code: 400,
    },
  );
});

test("/validate-pod-binding: a scheduler that is not on the list", async () => {
  const binding = {
    users: ["koord-scheduler"],
    dryRun: false,
    namespaces: ["*"],
    excludedNamespaces: ["kube-system"],
    bypassLabels: ["koordinator.sh/binding-admission-bypass"],
    bypassAnnotations: [],
  };
  await assertRefused(
    {
      path: "/validate-pod-binding",
      world: {
        featureGates: "BindingAdmissionWebhook=true",
        settings: { binding },
        pods: [{ metadata: { name: "a", namespace: "web" } }],
      },
      request: {
        uid: "b1",
        kind: { group: "", version: "v1", kind: "Binding" },
        resource: podType.resource,
        subResource: "binding",
        namespace: "web",
        name: "a",
        operation: "CREATE",
        userInfo: { username: "system:kube-scheduler" },
        object: { metadata: { name: "a", namespace: "web" }, target: { kind: "Node", name: "n1" } },
      },
    },
    { message: "binding denied: username is not in the allowed list", reason: "Forbidden", code: 403 },
  );
});

const nodeType = {
  kind: { group: "", version: "v1", kind: "Node" },
  resource: { group: "", version: "v1", resource: "nodes" },
};

test("/mutate-node-status: allocatable is stretched", async () => {
  const allocatable = { cpu: "64", memory: "256Gi", pods: "110" };
  const ratio = { "node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.50,"memory":1.25}' };
  await assertPatched(
    {
      path: "/mutate-node-status",
      world: { featureGates: "NodeMutatingWebhook=true" },
      request: {
        uid: "n0",
        ...nodeType,
        subResource: "status",
        name: "n1",
        operation: "UPDATE",
        userInfo: { username: "system:node:n1" },
        object: { metadata: { name: "n1", annotations: ratio }, status: { allocatable } },
        oldObject: { metadata: { name: "n1" }, status: { allocatable } },
      },
    },
    [
      {
        op: "add",
        path: "/metadata/annotations/node.koordinator.sh~1raw-allocatable",
        value: '{"cpu":"64","memory":"256Gi"}',
      },
      { op: "replace", path: "/status/allocatable/cpu", value: "96" },
      { op: "replace", path: "/status/allocatable/memory", value: "320Gi" },
    ],
  );
});

test("/validate-node: labels that two profiles select", async () => {
  const config = {
    nodeConfigs: [
      { name: "a", nodeSelector: { matchLabels: { x: "1" } } },
      { name: "b", nodeSelector: { matchLabels: { y: "1" } } },
    ],
  };
  const slo = {
    metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
    data: { "colocation-config": JSON.stringify(config) },
  };
  await assertRefused(
    {
      path: "/validate-node",
      world: { featureGates: "NodeValidatingWebhook=true", configMaps: [slo] },
      request: {
        uid: "n2",
        ...nodeType,
        name: "n1",
        operation: "UPDATE",
        userInfo: { username: "admin" },
        object: { metadata: { name: "n1", labels: { x: "1", y: "1" } } },
        oldObject: { metadata: { name: "n1", labels: { x: "1" } } },
      },
    },
    {
      message:
        '___{"reason":"ExistNodeConfict","message":{"config":"colocation-config","strategies":["a","b"],"exampleNodes":["n1"]}}___',
      code: 400,
    },
  );
});

const quotaType = {
  kind: { group: quotaGroup, version: "v1alpha1", kind: "ElasticQuota" },
  resource: { group: quotaGroup, version: "v1alpha1", resource: "elasticquotas" },
};
const parentLabel = "quota.scheduling.koordinator.sh/parent";

test("ElasticQuota mutation: parent and weight are filled in", async () => {
  await assertPatched(
    {
      path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
      world: {},
      request: {
        uid: "e1",
        ...quotaType,
        namespace: "q",
        name: "team-a",
        operation: "CREATE",
        userInfo: { username: "admin" },
        object: {
          apiVersion: `${quotaGroup}/v1alpha1`,
          kind: "ElasticQuota",
          metadata: { name: "team-a", namespace: "q" },
          spec: { min: { cpu: "10" }, max: { cpu: "40" } },
        },
      },
    },
    // Upstream also adds an empty status, a by-product that need not be there.
    [
      { op: "add", path: "/metadata/labels", value: { [parentLabel]: "koordinator-root-quota" } },
      {
        op: "add",
        path: "/metadata/annotations",
        value: { "quota.scheduling.koordinator.sh/shared-weight": '{"cpu":"40"}' },
      },
    ],
  );
});

test("ElasticQuota validation: minimums of the children together", async () => {
  const isParent = { "quota.scheduling.koordinator.sh/is-parent": "true" };
  await assertRefused(
    {
      path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
      world: {
        quotas: [
          {
            metadata: { name: "team-a", namespace: "q", labels: isParent },
            spec: { min: { cpu: "10" }, max: { cpu: "40" } },
          },
          {
            metadata: { name: "a1", namespace: "q", labels: { [parentLabel]: "team-a" } },
            spec: { min: { cpu: "6" }, max: { cpu: "40" } },
          },
        ],
      },
      request: {
        uid: "e2",
        ...quotaType,
        namespace: "q",
        name: "a2",
        operation: "CREATE",
        userInfo: { username: "admin" },
        object: {
          metadata: { name: "a2", namespace: "q", labels: { [parentLabel]: "team-a" } },
          spec: { min: { cpu: "5" }, max: { cpu: "40" } },
        },
      },
    },
    { message: "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: team-a", code: 400 },
  );
});

test("/mutate-reservation: the profile goes to the Reservation and its template", async () => {
  const spec = {
    selector: { matchLabels: { pool: "offline" } },
    qosClass: "BE",
    priorityClassName: "koord-batch",
    schedulerName: "koord-scheduler",
  };
  const group = "scheduling.koordinator.sh";
  const at = "/spec/template/spec";
  await assertPatched(
    {
      path: "/mutate-reservation",
      world: {
        featureGates: "ReservationMutatingWebhook=true",
        profiles: [{ metadata: { name: "offline" }, spec }],
      },
      request: {
        uid: "r1",
        kind: { group, version: "v1alpha1", kind: "Reservation" },
        resource: { group, version: "v1alpha1", resource: "reservations" },
        name: "resv",
        operation: "CREATE",
        userInfo: { username: "admin" },
        object: {
          apiVersion: `${group}/v1alpha1`,
          kind: "Reservation",
          metadata: { name: "resv", labels: { pool: "offline" } },
          spec: {
            template: { spec: { containers: [{ name: "c", image: "i" }] } },
            owners: [{ labelSelector: { matchLabels: { a: "b" } } }],
          },
        },
      },
    },
    [
      { op: "add", path: "/metadata/labels/koordinator.sh~1qosClass", value: "BE" },
      { op: "add", path: `${at}/schedulerName`, value: "koord-scheduler" },
      { op: "add", path: `${at}/priorityClassName`, value: "koord-batch" },
      { op: "add", path: `${at}/priority`, value: 5000 },
      { op: "add", path: `${at}/preemptionPolicy`, value: "PreemptLowerPriority" },
    ],
  );
});

test("/validate-configmap: one field of a pair", async () => {
  await assertRefused(
    {
      path: "/validate-configmap",
      world: { featureGates: "ConfigMapValidatingWebhook=true" },
      version: "v1beta1",
      request: {
        uid: "c1",
        kind: { group: "", version: "v1", kind: "ConfigMap" },
        resource: { group: "", version: "v1", resource: "configmaps" },
        namespace: "koordinator-system",
        name: "slo-controller-config",
        operation: "CREATE",
        object: {
          metadata: { name: "slo-controller-config", namespace: "koordinator-system" },
          data: { "resource-threshold-config": '{"clusterStrategy":{"memoryEvictThresholdPercent":70}}' },
        },
      },
    },
    {
      code: 400,
      message:
        '___{"reason":"ConfigParamInvalid","message":{"ResourceThresholdCfg.ClusterStrategy.MemoryEvictThresholdPercent":"MemoryEvictThresholdPercent must be greater than MemoryEvictLowerPercent"}}___',
    },
  );
});
