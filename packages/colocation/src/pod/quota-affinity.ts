/** Pods of a quota that belongs to a tree go to the nodes of that tree. */
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, isRecord, own, type Json } from "../json.ts";
import { quotaKey } from "../keys.ts";
import type { ElasticQuotaProfile } from "../kinds.ts";
import type { ClusterView } from "../view.ts";
import type { PodHead } from "./read-pod.ts";

export function addTreeAffinity(pod: Json, reading: PodHead, view: ClusterView): void {
  const tree = view.quotas();
  const wanted = reading.labels[quotaKey.name] || reading.namespace;
  const treeId = (tree.get(wanted) ?? tree.boundTo(wanted))?.treeId ?? "";
  if (treeId === "") return;
  const profile = firstProfile(view, treeId);
  const requirements = profile ? requirementsOf(profile) : [];
  if (requirements.length > 0) require(pod, requirements);
}

function firstProfile(view: ClusterView, treeId: string): ElasticQuotaProfile | undefined {
  return [...view.quotaProfiles()]
    .filter(({ metadata }) => metadata.labels?.[quotaKey.treeId] === treeId)
    .toSorted((left, right) => order(left).localeCompare(order(right)))[0];
}

function order({ metadata }: ElasticQuotaProfile): string {
  return `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
}

function requirementsOf({ spec }: ElasticQuotaProfile): Json[] {
  const { matchLabels = {}, matchExpressions = [] } = spec?.nodeSelector ?? {};
  return [
    ...Object.entries(matchLabels)
      .toSorted(([left], [right]) => (left < right ? -1 : 1))
      .map(([key, value]) => ({ key, operator: "In", values: [value] })),
    ...matchExpressions.map((each) => ({ ...each })),
  ];
}

/** Added to every term, since one of them must hold; what a term has already is not added again. */
function require(pod: Json, requirements: readonly Json[]): void {
  const affinity = child(child(child(pod, "spec"), "affinity"), "nodeAffinity");
  const required = child(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
  const terms = own(required, "nodeSelectorTerms");
  if (!Array.isArray(terms) || terms.length === 0) {
    required["nodeSelectorTerms"] = [{ matchExpressions: requirements }];
    return;
  }
  for (const term of terms as unknown[]) {
    if (!isRecord(term)) continue;
    const present = own(term, "matchExpressions");
    const expressions: unknown[] = Array.isArray(present) ? present : [];
    const missing = requirements.filter((wanted) => !expressions.some((each) => jsonEqual(each, wanted)));
    term["matchExpressions"] = [...expressions, ...missing];
  }
}
