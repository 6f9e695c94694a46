/** The requirement that holds a pod to one node, and how it is taken back. */
import { jsonEqual } from "@cocoon/core/json-patch";
import type { PodSpec } from "@cocoon/kube";
import { getRequiredNodeTerms } from "@cocoon/kube/scheduling";

export interface FieldRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values: readonly string[];
}

export function nodeRequirement(node: string): FieldRequirement {
  return { key: "metadata.name", operator: "In", values: [node] };
}

type Affinity = NonNullable<PodSpec["affinity"]>;
type Term = NonNullable<ReturnType<typeof getRequiredNodeTerms>>[number];

const required = "requiredDuringSchedulingIgnoredDuringExecution";

/** The affinity without our requirement; undefined when nothing else was in it. */
export function withoutNode(affinity: Affinity, node: string): Affinity | undefined {
  const terms = getRequiredNodeTerms(affinity);
  if (!terms) return affinity;
  const left = terms.map((term) => withoutRequirement(term, nodeRequirement(node)));
  const isOurs = left.length === 1 && left.every((term) => Object.keys(term).length === 0);
  const { nodeAffinity, ...others } = affinity as Record<string, unknown>;
  const { [required]: _terms, ...preferences } = nodeAffinity as Record<string, unknown>;
  const nodePart = isOurs ? preferences : { ...preferences, [required]: { nodeSelectorTerms: left } };
  const rest = Object.keys(nodePart).length === 0 ? others : { ...others, nodeAffinity: nodePart };
  return Object.keys(rest).length === 0 ? undefined : rest;
}

/** One of them, the last: the pod may have brought the same itself. */
function withoutRequirement({ matchFields, ...term }: Term, ours: FieldRequirement): Term {
  if (!matchFields) return term;
  const at = matchFields.findLastIndex((each) => jsonEqual(each, ours));
  const left = at < 0 ? matchFields : matchFields.toSpliced(at, 1);
  return left.length === 0 ? term : { ...term, matchFields: left };
}
