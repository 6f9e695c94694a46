/** The kinds that every cluster serves and that are used here. */
import type {
  ConfigMap,
  CustomResourceDefinition,
  KubeEvent,
  Lease,
  Namespace,
  NetworkPolicy,
  Node,
  OpenObject,
  Pod,
  Secret,
  Service,
  WebhookConfiguration,
  Workload,
} from "./builtin-objects.ts";
import { resourceType } from "./object.ts";

const core = { group: "", version: "v1" };
const apps = { group: "apps", version: "v1" };
const admission = { group: "admissionregistration.k8s.io", version: "v1", namespaced: false };

export const pods = resourceType<Pod>({ ...core, kind: "Pod" });
export const nodes = resourceType<Node>({ ...core, kind: "Node", namespaced: false });
export const namespaces = resourceType<Namespace>({ ...core, kind: "Namespace", namespaced: false });
export const configMaps = resourceType<ConfigMap>({ ...core, kind: "ConfigMap" });
export const secrets = resourceType<Secret>({ ...core, kind: "Secret" });
export const services = resourceType<Service>({ ...core, kind: "Service" });
export const networkPolicies = resourceType<NetworkPolicy>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
});
export const serviceAccounts = resourceType<OpenObject>({ ...core, kind: "ServiceAccount" });
export const events = resourceType<KubeEvent>({ group: "events.k8s.io", version: "v1", kind: "Event" });
export const leases = resourceType<Lease>({ group: "coordination.k8s.io", version: "v1", kind: "Lease" });
export const deployments = resourceType<Workload>({ ...apps, kind: "Deployment" });
export const replicaSets = resourceType<Workload>({ ...apps, kind: "ReplicaSet" });
export const statefulSets = resourceType<Workload>({ ...apps, kind: "StatefulSet" });
export const customResourceDefinitions = resourceType<CustomResourceDefinition>({
  group: "apiextensions.k8s.io",
  version: "v1",
  kind: "CustomResourceDefinition",
  namespaced: false,
});
export const mutatingWebhookConfigurations = resourceType<WebhookConfiguration>({
  ...admission,
  kind: "MutatingWebhookConfiguration",
});
export const validatingWebhookConfigurations = resourceType<WebhookConfiguration>({
  ...admission,
  kind: "ValidatingWebhookConfiguration",
});
