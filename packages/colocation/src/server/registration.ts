/** The webhooks as the API server is told of them: one table, from which configurations and manifests are made. */
import type { Gates, GateName } from "../gates.ts";
import { configMapTypeLabel, controlPlaneLabel, mutatingUpdateLabel } from "../keys.ts";

export interface WebhookDefinition {
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
  readonly namespaceSelector?: object;
  readonly objectSelector?: object;
}

const core = { group: "", version: "v1", sideEffects: "None" } as const;
const quotaApi = { group: "scheduling.sigs.k8s.io", version: "v1alpha1", resource: "elasticquotas" } as const;
/** Namespaces of a control plane carry this label, ours among them: its pods must start without us. */
const namespaceSelector = { matchExpressions: [{ key: controlPlaneLabel, operator: "DoesNotExist" }] };

const webhookDefinitions: readonly WebhookDefinition[] = [
  {
    ...core,
    name: "mpod-create.koordinator.sh",
    type: "mutating",
    path: "/mutate-pod",
    gate: "PodMutatingWebhook",
    operations: ["CREATE"],
    resource: "pods",
    failurePolicy: "Fail",
    timeoutSeconds: 5,
    namespaceSelector,
  },
  {
    ...core,
    name: "mpod-update.koordinator.sh",
    type: "mutating",
    path: "/mutate-pod",
    gate: "PodMutatingWebhook",
    operations: ["UPDATE"],
    resource: "pods",
    failurePolicy: "Fail",
    timeoutSeconds: 5,
    namespaceSelector,
    objectSelector: { matchExpressions: [{ key: mutatingUpdateLabel, operator: "In", values: ["true"] }] },
  },
  {
    ...core,
    name: "mnode-status.koordinator.sh",
    type: "mutating",
    path: "/mutate-node-status",
    gate: "NodeMutatingWebhook",
    operations: ["CREATE", "UPDATE"],
    resource: "nodes/status",
    failurePolicy: "Ignore",
    timeoutSeconds: 10,
  },
  {
    ...quotaApi,
    name: "melasticquota.koordinator.sh",
    type: "mutating",
    path: "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
    gate: "ElasticMutatingWebhook",
    operations: ["CREATE"],
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    sideEffects: "None",
  },
  {
    name: "mreservation-create.koordinator.sh",
    type: "mutating",
    path: "/mutate-reservation",
    gate: "ReservationMutatingWebhook",
    group: "scheduling.koordinator.sh",
    version: "v1alpha1",
    operations: ["CREATE"],
    resource: "reservations",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    sideEffects: "None",
  },
  {
    ...core,
    name: "vpod.koordinator.sh",
    type: "validating",
    path: "/validate-pod",
    gate: "PodValidatingWebhook",
    operations: ["CREATE", "UPDATE"],
    resource: "pods",
    failurePolicy: "Fail",
    timeoutSeconds: 5,
    // Quota admission writes what it took; never on a dry run.
    sideEffects: "NoneOnDryRun",
    namespaceSelector,
  },
  {
    ...core,
    name: "vpodbinding.koordinator.sh",
    type: "validating",
    path: "/validate-pod-binding",
    gate: "PodValidatingWebhook",
    operations: ["CREATE"],
    resource: "pods/binding",
    failurePolicy: "Ignore",
    timeoutSeconds: 5,
  },
  {
    ...core,
    name: "vnode.koordinator.sh",
    type: "validating",
    path: "/validate-node",
    gate: "NodeValidatingWebhook",
    operations: ["CREATE", "UPDATE"],
    resource: "nodes",
    failurePolicy: "Ignore",
    timeoutSeconds: 10,
  },
  {
    ...quotaApi,
    name: "velasticquota.koordinator.sh",
    type: "validating",
    path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
    gate: "ElasticValidatingWebhook",
    operations: ["CREATE", "UPDATE", "DELETE"],
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    sideEffects: "NoneOnDryRun",
  },
  {
    ...core,
    name: "vconfigmap.koordinator.sh",
    type: "validating",
    path: "/validate-configmap",
    gate: "ConfigMapValidatingWebhook",
    operations: ["CREATE", "UPDATE", "DELETE"],
    resource: "configmaps",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    objectSelector: {
      matchExpressions: [{ key: configMapTypeLabel, operator: "In", values: ["slo-controller-config"] }],
    },
  },
];

export function activeDefinitions(gates: Gates): readonly WebhookDefinition[] {
  return gates.WebhookFramework ? webhookDefinitions.filter(({ gate }) => gates[gate]) : [];
}

/** `/mutate-pod` is the endpoint `mutate-pod`, in metrics and logs. */
export function endpointName(path: string): string {
  return path.slice(1);
}

/** Endpoints of which all webhooks are registered as Ignore: they must never stand in anybody's way. */
export function isLenient(endpoint: string): boolean {
  const own = webhookDefinitions.filter(({ path }) => endpointName(path) === endpoint);
  return own.length > 0 && own.every(({ failurePolicy }) => failurePolicy === "Ignore");
}

/** Where the API server finds us. */
export type ClientConfigOf = (path: string) => object;

/** An entry of a webhook configuration. */
export function webhookEntry(
  definition: WebhookDefinition,
  clientConfig: ClientConfigOf,
): Record<string, unknown> & { name: string } {
  const { name, type, path, group, version, operations, resource } = definition;
  const {
    failurePolicy,
    timeoutSeconds,
    sideEffects,
    namespaceSelector: namespaces,
    objectSelector,
  } = definition;
  return {
    name,
    admissionReviewVersions: ["v1", "v1beta1"],
    clientConfig: clientConfig(path),
    failurePolicy,
    ...(type === "mutating" ? { reinvocationPolicy: "IfNeeded" } : {}),
    ...(namespaces ? { namespaceSelector: namespaces } : {}),
    ...(objectSelector ? { objectSelector } : {}),
    rules: [
      { apiGroups: [group], apiVersions: [version], operations: [...operations], resources: [resource] },
    ],
    sideEffects,
    timeoutSeconds,
  };
}
