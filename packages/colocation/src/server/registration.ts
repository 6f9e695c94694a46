/** The webhooks as they are registered in the API server: one table, from which configurations and manifests are made. */
import type { WebhookConfiguration } from "@cocoon/kube";
import type { Gates, GateName } from "../gates.ts";
import { configMapTypeLabel, controlPlaneLabel, mutatingUpdateLabel } from "../keys.ts";

type Selectors = Pick<Webhook, "namespaceSelector" | "objectSelector">;

export interface WebhookDefinition extends Selectors {
  readonly name: string;
  readonly type: "mutating" | "validating";
  readonly path: string;
  readonly gate: GateName;
  readonly group: string;
  readonly version: string;
  readonly operations: readonly string[];
  readonly resource: string;
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  readonly sideEffects: "None" | "NoneOnDryRun";
}

/** Namespaces of a control plane carry this label, ours among them: its pods must start without us. */
const namespaceSelector = { matchExpressions: [{ key: controlPlaneLabel, operator: "DoesNotExist" }] };
const ofPods = { resource: "pods", timeoutSeconds: 5, namespaceSelector };
const quotaPath = "scheduling-sigs-k8s-io-v1alpha1-elasticquota";
const ofQuotas = { group: "scheduling.sigs.k8s.io", version: "v1alpha1", resource: "elasticquotas" };

type Row = readonly [name: string, path: string, gate: GateName, operations: readonly string[]];

function define(
  [name, path, gate, operations]: Row,
  more: Pick<WebhookDefinition, "resource"> & Partial<WebhookDefinition>,
): WebhookDefinition {
  return {
    name: `${name}.koordinator.sh`,
    path,
    gate,
    operations,
    type: path.startsWith("/mutate-") ? "mutating" : "validating",
    group: "",
    version: "v1",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    sideEffects: "None",
    ...more,
  };
}

const having = (key: string, value: string) => ({
  objectSelector: { matchExpressions: [{ key, operator: "In", values: [value] }] },
});

const webhookDefinitions: readonly WebhookDefinition[] = [
  define(["mpod-create", "/mutate-pod", "PodMutatingWebhook", ["CREATE"]], ofPods),
  define(["mpod-update", "/mutate-pod", "PodMutatingWebhook", ["UPDATE"]], {
    ...ofPods,
    ...having(mutatingUpdateLabel, "true"),
  }),
  define(["mnode-status", "/mutate-node-status", "NodeMutatingWebhook", ["CREATE", "UPDATE"]], {
    resource: "nodes/status",
    failurePolicy: "Ignore",
  }),
  define(["melasticquota", `/mutate-${quotaPath}`, "ElasticMutatingWebhook", ["CREATE"]], ofQuotas),
  define(["mreservation-create", "/mutate-reservation", "ReservationMutatingWebhook", ["CREATE"]], {
    group: "scheduling.koordinator.sh",
    version: "v1alpha1",
    resource: "reservations",
  }),
  // Quota admission writes what it took; never on a dry run.
  define(["vpod", "/validate-pod", "PodValidatingWebhook", ["CREATE", "UPDATE"]], {
    ...ofPods,
    sideEffects: "NoneOnDryRun",
  }),
  define(["vpodbinding", "/validate-pod-binding", "PodValidatingWebhook", ["CREATE"]], {
    resource: "pods/binding",
    failurePolicy: "Ignore",
    timeoutSeconds: 5,
  }),
  define(["vnode", "/validate-node", "NodeValidatingWebhook", ["CREATE", "UPDATE"]], {
    resource: "nodes",
    failurePolicy: "Ignore",
  }),
  define(
    ["velasticquota", `/validate-${quotaPath}`, "ElasticValidatingWebhook", ["CREATE", "UPDATE", "DELETE"]],
    { ...ofQuotas, sideEffects: "NoneOnDryRun" },
  ),
  define(
    ["vconfigmap", "/validate-configmap", "ConfigMapValidatingWebhook", ["CREATE", "UPDATE", "DELETE"]],
    { resource: "configmaps", ...having(configMapTypeLabel, "slo-controller-config") },
  ),
];

export function activeDefinitions(gates: Gates): readonly WebhookDefinition[] {
  return gates.WebhookFramework ? webhookDefinitions.filter(({ gate }) => gates[gate]) : [];
}

/** `/mutate-pod` is the endpoint `mutate-pod`, in metrics and logs. */
export function endpointName(path: string): string {
  return path.slice(1);
}

/** Endpoints of which all webhooks are registered as Ignore: they must never block a request. */
export function isLenient(endpoint: string): boolean {
  const own = webhookDefinitions.filter(({ path }) => endpointName(path) === endpoint);
  return own.length > 0 && own.every(({ failurePolicy }) => failurePolicy === "Ignore");
}

export type Webhook = NonNullable<WebhookConfiguration["webhooks"]>[number];
export type BuildClientConfig = (path: string) => Webhook["clientConfig"];

export function webhookEntry(definition: WebhookDefinition, clientConfig: BuildClientConfig): Webhook {
  const { name, type, path, group, version, operations, resource, ...rest } = definition;
  const { failurePolicy, timeoutSeconds, sideEffects, objectSelector } = rest;
  const rule = { apiGroups: [group], apiVersions: [version], resources: [resource] };
  return {
    name,
    admissionReviewVersions: ["v1", "v1beta1"],
    clientConfig: clientConfig(path),
    failurePolicy,
    ...(type === "mutating" ? { reinvocationPolicy: "IfNeeded" } : {}),
    ...(rest.namespaceSelector ? { namespaceSelector: rest.namespaceSelector } : {}),
    ...(objectSelector ? { objectSelector } : {}),
    rules: [{ ...rule, operations }],
    sideEffects,
    timeoutSeconds,
  };
}
