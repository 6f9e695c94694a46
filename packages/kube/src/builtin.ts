/** The kinds that every cluster serves and that are used here. */
import type {
  ConfigMap,
  CustomResourceDefinition,
  Deployment,
  KubeEvent,
  Lease,
  Namespace,
  Node,
  OpenObject,
  Pod,
  ReplicaSet,
  Secret,
  Service,
  StatefulSet,
  WebhookConfiguration,
} from "./builtin-objects.ts";
import { resourceType } from "./object.ts";

const core = { group: "", version: "v1" };
const apps = { group: "apps", version: "v1" };
const admission = { group: "admissionregistration.k8s.io", version: "v1", namespaced: false };

export const pods = resourceType<Pod>({ ...core, kind: "Pod", plural: "pods", namespaced: true });
export const nodes = resourceType<Node>({ ...core, kind: "Node", plural: "nodes", namespaced: false });
export const namespaces = resourceType<Namespace>({
  ...core,
  kind: "Namespace",
  plural: "namespaces",
  namespaced: false,
});
export const configMaps = resourceType<ConfigMap>({
  ...core,
  kind: "ConfigMap",
  plural: "configmaps",
  namespaced: true,
});
export const secrets = resourceType<Secret>({ ...core, kind: "Secret", plural: "secrets", namespaced: true });
export const services = resourceType<Service>({
  ...core,
  kind: "Service",
  plural: "services",
  namespaced: true,
});
export const serviceAccounts = resourceType<OpenObject>({
  ...core,
  kind: "ServiceAccount",
  plural: "serviceaccounts",
  namespaced: true,
});
export const events = resourceType<KubeEvent>({
  group: "events.k8s.io",
  version: "v1",
  kind: "Event",
  plural: "events",
  namespaced: true,
});
export const leases = resourceType<Lease>({
  group: "coordination.k8s.io",
  version: "v1",
  kind: "Lease",
  plural: "leases",
  namespaced: true,
});
export const deployments = resourceType<Deployment>({
  ...apps,
  kind: "Deployment",
  plural: "deployments",
  namespaced: true,
});
export const replicaSets = resourceType<ReplicaSet>({
  ...apps,
  kind: "ReplicaSet",
  plural: "replicasets",
  namespaced: true,
});
export const statefulSets = resourceType<StatefulSet>({
  ...apps,
  kind: "StatefulSet",
  plural: "statefulsets",
  namespaced: true,
});
export const customResourceDefinitions = resourceType<CustomResourceDefinition>({
  group: "apiextensions.k8s.io",
  version: "v1",
  kind: "CustomResourceDefinition",
  plural: "customresourcedefinitions",
  namespaced: false,
});
export const mutatingWebhookConfigurations = resourceType<WebhookConfiguration>({
  ...admission,
  kind: "MutatingWebhookConfiguration",
  plural: "mutatingwebhookconfigurations",
});
export const validatingWebhookConfigurations = resourceType<WebhookConfiguration>({
  ...admission,
  kind: "ValidatingWebhookConfiguration",
  plural: "validatingwebhookconfigurations",
});
