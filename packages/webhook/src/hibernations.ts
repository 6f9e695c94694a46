/** CocoonHibernations as the cache shows them. */
import { apiGroup } from "@cocoon/contract";
import { resourceType, type KubeObject, type ObjectCache } from "@cocoon/kube";

export interface HibernationFacts extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
  };
  readonly pod: string;
}

export const cocoonHibernations = resourceType<HibernationFacts>({
  group: apiGroup,
  version: "v1",
  kind: "CocoonHibernation",
  plural: "cocoonhibernations",
  namespaced: true,
});

export function readHibernationFacts(object: KubeObject): HibernationFacts {
  const { name = "", namespace = "", uid = "", resourceVersion = "", deletionTimestamp } = object.metadata;
  const { spec } = object as { spec?: { podRef?: { name?: unknown } } };
  const pod = spec?.podRef?.name;
  return {
    metadata: { name, namespace, uid, resourceVersion, ...(deletionTimestamp ? { deletionTimestamp } : {}) },
    pod: typeof pod === "string" ? pod : "",
  };
}

function podKeyOf({ metadata, pod }: HibernationFacts): string[] {
  return [`${metadata.namespace}/${pod}`];
}

/** All that refer to a pod, whatever they are called. */
export function hibernationsOf(
  cache: ObjectCache<HibernationFacts>,
  { namespace, pod }: { readonly namespace: string; readonly pod: string },
): readonly HibernationFacts[] {
  return cache.index(podKeyOf).get(`${namespace}/${pod}`);
}
