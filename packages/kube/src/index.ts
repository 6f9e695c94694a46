/**
 * kube: Kubernetes without product words. Client, watch and cache here; controllers, admission and serving
 * certificates under their own names (`@cocoon/kube/controller`, `/admission`, `/certificates`).
 *
 *   await using client = await openKubeClient({ signal });
 *   const pod = await client.get(pods, { namespace: "default", name: "web" }, { signal });
 *   await using caches = openCaches({ client, log });
 *   await using cache = caches.open(pods, {});
 *   await cache.synced({ signal });
 */
export {
  openCaches,
  type CacheListener,
  type CacheOptions,
  type Caches,
  type CachesOptions,
  type ObjectCache,
} from "./cache.ts";
export type { CacheIndex, IndexKeys } from "./cache-index.ts";
export type { CacheEvent } from "./cache-store.ts";
export type {
  ByteStream,
  CallOptions,
  ClientTarget,
  DeleteOptions,
  KubeClient,
  KubeConnection,
  ListOptions,
  ObjectList,
  Patch,
  RawRequest,
  StreamRequest,
  WriteOptions,
} from "./client.ts";
export { kubeClientOptions, readKubeEnvironment, type KubeEnvironment } from "./config.ts";
export type { KubeconfigOptions } from "./kubeconfig.ts";
export {
  apiVersionOf,
  keyOf,
  keyText,
  parseKey,
  resourceName,
  resourceType,
  type KubeObject,
  type ObjectKey,
  type ObjectMeta,
  type OwnerReference,
  type ResourceType,
} from "./object.ts";
export { openKubeClient, type KubeClientOptions } from "./open-client.ts";
export type {
  Binding,
  Condition,
  ConfigMap,
  Container,
  ContainerPort,
  ContainerState,
  ContainerStatus,
  CustomResourceDefinition,
  Deployment,
  EnvVar,
  Eviction,
  KubeEvent,
  LabelSelector,
  Lease,
  Namespace,
  Node,
  ObjectReference,
  OpenObject,
  Pod,
  PodSpec,
  PodStatus,
  PodTemplate,
  ReplicaSet,
  Scale,
  Secret,
  Service,
  StatefulSet,
  Taint,
  Toleration,
  WebhookClientConfig,
  WebhookConfiguration,
} from "./builtin-objects.ts";
export {
  configMaps,
  customResourceDefinitions,
  deployments,
  events,
  leases,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  pods,
  replicaSets,
  secrets,
  serviceAccounts,
  services,
  statefulSets,
  validatingWebhookConfigurations,
} from "./builtin.ts";
export {
  watch,
  watchBatches,
  type ListMethod,
  type Selection,
  type WatchBatch,
  type WatchEvent,
  type WatchOptions,
  type WatchTuning,
} from "./watch.ts";
