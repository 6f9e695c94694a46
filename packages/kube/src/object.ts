/** Kubernetes objects as they are on the wire. Unknown fields are kept: we patch, we do not replace. */

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly managedFields?: readonly unknown[];
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** Identity of an object among its kind; `namespace` is undefined for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/**
 * A kind of object: where the API server serves it, and which TypeScript type it has. Declared once per kind with
 * `resourceType<Pod>({...})`; there is no generated code.
 */
export interface ResourceType<T extends KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Carries the type only; never present at run time. */
  readonly _object?: T;
}

export function resourceType<T extends KubeObject>(type: Omit<ResourceType<T>, "_object">): ResourceType<T> {
  return type;
}

export function apiVersionOf(type: Pick<ResourceType<KubeObject>, "group" | "version">): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

/** `pods`, `deployments.apps`: as RBAC and kubectl name it. */
export function resourceName({ plural, group }: Pick<ResourceType<KubeObject>, "plural" | "group">): string {
  return group === "" ? plural : `${plural}.${group}`;
}

export function keyOf(object: KubeObject): ObjectKey {
  return { namespace: object.metadata.namespace, name: object.metadata.name ?? "" };
}

/** `namespace/name`, or `name` for cluster-scoped objects: for maps, queues and logs. */
export function keyText(key: ObjectKey): string {
  return key.namespace ? `${key.namespace}/${key.name}` : key.name;
}

export function parseKey(text: string): ObjectKey {
  const slash = text.indexOf("/");
  return slash < 0 ? { name: text } : { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}
