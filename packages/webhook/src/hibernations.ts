/** CocoonHibernations as the cache shows them. */
import { apiGroup } from "@cocoon/contract";
import { resourceType, type KubeObject, type ObjectCache } from "@cocoon/kube";
import { slimMetadata, type SlimObject } from "./pods/slim-pod.ts";

export interface HibernationFacts extends SlimObject {
  readonly pod: string;
}

export const cocoonHibernations = resourceType<HibernationFacts>({
  group: apiGroup,
  version: "v1",
  kind: "CocoonHibernation",
});

export function readHibernationFacts(object: KubeObject): HibernationFacts {
  const { spec } = object as { spec?: { podRef?: { name?: unknown } } };
  const pod = spec?.podRef?.name;
  return { metadata: slimMetadata(object), pod: typeof pod === "string" ? pod : "" };
}

function formatPodKey({ metadata, pod }: HibernationFacts): string[] {
  return [`${metadata.namespace}/${pod}`];
}

export function findHibernations(
  cache: ObjectCache<HibernationFacts>,
  { namespace, pod }: { readonly namespace: string; readonly pod: string },
): readonly HibernationFacts[] {
  return cache.index(formatPodKey).get(`${namespace}/${pod}`);
}
