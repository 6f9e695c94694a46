/** Kubernetes objects as they are on the wire. Unknown fields are kept: we patch, we do not replace. */
import type * as meta from "kubernetes-types/meta/v1.d.ts";
import type { Frozen } from "@cocoon/core/frozen";

export type OwnerReference = Frozen<meta.OwnerReference>;

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: Frozen<meta.ObjectMeta>;
}

/** Identity of an object among its kind; `namespace` is undefined for cluster-scoped kinds. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** A kind of object: where the API server serves it, and its TypeScript type. */
export interface ResourceType<T extends KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  /** Carries the type only; never present at run time. */
  readonly _object?: T;
}

type TypeInput = Pick<ResourceType<KubeObject>, "group" | "version" | "kind"> &
  Partial<Pick<ResourceType<KubeObject>, "plural" | "namespaced">>;

/** The plural is `pods` for a `Pod` unless it is given; kinds are namespaced unless it says otherwise. */
export function resourceType<T extends KubeObject>(type: TypeInput): ResourceType<T> {
  return { plural: `${type.kind.toLowerCase()}s`, namespaced: true, ...type };
}

export function formatApiVersion(type: Pick<ResourceType<KubeObject>, "group" | "version">): string {
  return type.group === "" ? type.version : `${type.group}/${type.version}`;
}

export function resourceName({ plural, group }: Pick<ResourceType<KubeObject>, "plural" | "group">): string {
  return group === "" ? plural : `${plural}.${group}`;
}

export function getKey(object: KubeObject): ObjectKey {
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

/** Whether everything up to `wanted` is included in `seen`. False when one of them is no version at all. */
export function includesVersion(seen: string | undefined, wanted: string | undefined): boolean {
  if (!isVersion(seen) || !isVersion(wanted)) return false;
  return seen.length === wanted.length ? seen >= wanted : seen.length > wanted.length;
}

function isVersion(text: string | undefined): text is string {
  return text !== undefined && /^[1-9][0-9]*$/.test(text);
}

export function isSameState(one: KubeObject, other: KubeObject): boolean {
  const { uid, resourceVersion } = one.metadata;
  const same = resourceVersion === other.metadata.resourceVersion && uid === other.metadata.uid;
  return same && resourceVersion !== undefined;
}
