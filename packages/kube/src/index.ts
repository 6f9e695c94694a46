/**
 * kube: Kubernetes without product words. Client, watch and cache here; controllers, admission and serving
 * certificates under their own names (`@cocoon/kube/controller`, `/admission`, `/certificates`).
 */
export type {
  CallOptions,
  DeleteOptions,
  JsonPatchOperation,
  KubeClient,
  ListOptions,
  ObjectList,
  Patch,
  RawRequest,
  WriteOptions,
} from "./client.ts";
export {
  apiVersionOf,
  keyOf,
  keyText,
  parseKey,
  resourceType,
  type KubeObject,
  type ObjectKey,
  type ObjectMeta,
  type OwnerReference,
  type ResourceType,
} from "./object.ts";
