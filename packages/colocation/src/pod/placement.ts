/** What keeps a machine's pod on its node. A profile's patch may replace it; without it a machine is evicted or starts elsewhere. */
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, isRecord, own, type Json } from "../json.ts";
import { quotaKey } from "../keys.ts";
import type { ElasticQuotaProfile } from "../kinds.ts";
import type { ClusterView } from "../view.ts";
import type { PodHead } from "./read-pod.ts";

interface Placement {
  readonly tolerations: readonly unknown[];
  readonly node: unknown;
}

const awayTaints: ReadonlySet<unknown> = new Set([
  "node.kubernetes.io/not-ready",
  "node.kubernetes.io/unreachable",
]);

export function readPlacement(pod: Json): Placement {
  return { tolerations: readTolerations(pod).filter(isEndless), node: requiredNode(pod) };
}

export function keepPlacement(pod: Json, { tolerations, node }: Placement): void {
  const now = readTolerations(pod);
  const missing = tolerations.filter((wanted) => !now.some((each) => jsonEqual(each, wanted)));
  if (missing.length > 0) child(pod, "spec")["tolerations"] = [...now, ...missing];
  if (node === undefined) return;
  for (const term of readTerms(pod)) {
    const fields = readList(own(term, "matchFields"));
    if (!fields.some((each) => jsonEqual(each, node))) term["matchFields"] = [...fields, node];
  }
}

function isEndless(toleration: unknown): boolean {
  return (
    isRecord(toleration) &&
    awayTaints.has(own(toleration, "key")) &&
    own(toleration, "effect") === "NoExecute" &&
    own(toleration, "tolerationSeconds") === undefined
  );
}

/** The requirement for one node that all alternatives share. */
function requiredNode(pod: Json): unknown {
  const [first, ...others] = readTerms(pod);
  const isNode = (each: unknown) => isRecord(each) && own(each, "key") === "metadata.name";
  const node = first ? readList(own(first, "matchFields")).findLast(isNode) : undefined;
  const isShared = others.every((term) =>
    readList(own(term, "matchFields")).some((each) => jsonEqual(each, node)),
  );
  return isShared ? node : undefined;
}

function readTerms(pod: Json): Json[] {
  const path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
  let at: unknown = pod;
  for (const key of path) at = isRecord(at) ? own(at, key) : undefined;
  return readList(isRecord(at) ? own(at, "nodeSelectorTerms") : undefined).filter(isRecord);
}

function readTolerations(pod: Json): unknown[] {
  const spec = own(pod, "spec");
  return readList(isRecord(spec) ? own(spec, "tolerations") : undefined);
}

function readList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Pods of a quota that belongs to a tree go to the nodes of that tree. */
export function addTreeAffinity(pod: Json, reading: PodHead, view: ClusterView): void {
  const tree = view.quotas();
  const wanted = reading.labels[quotaKey.name] || reading.namespace;
  const treeId = (tree.get(wanted) ?? tree.boundTo(wanted))?.treeId ?? "";
  if (treeId === "") return;
  const profile = firstProfile(view, treeId);
  const requirements = profile ? readRequirements(profile) : [];
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

function readRequirements({ spec }: ElasticQuotaProfile): Json[] {
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
