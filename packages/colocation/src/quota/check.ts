/** One request about a quota against the tree: create, update or delete. Pure. */
import type { Gates } from "../gates.ts";
import { defaultQuota, quotaKey, rootQuota, systemQuota } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import type { ElasticQuota } from "../kinds.ts";
import type { PendingTree } from "./pending-tree.ts";
import type { Quota } from "./quota-tree.ts";
import { selfRules } from "./self-rules.ts";
import { topologyRules } from "./topology-rules.ts";

export type QuotaRequest =
  | { readonly operation: "CREATE"; readonly quota: Quota }
  | { readonly operation: "UPDATE"; readonly quota: Quota; readonly old: Quota }
  | { readonly operation: "DELETE"; readonly old: Quota };

export interface CheckParts {
  readonly gates: Gates;
  readonly view: Pick<ClusterView, "podsWithQuotaLabel" | "podsInNamespace">;
}

/** Groups of rules: the first that refuses decides. */
export function quotaChecks(
  request: QuotaRequest,
  tree: PendingTree,
  parts: CheckParts,
): readonly (() => Iterable<Refusal>)[] {
  if (request.operation === "DELETE") return [() => deletion(request.old, tree, parts)];
  const { quota } = request;
  const old = request.operation === "UPDATE" ? request.old : undefined;
  return [
    () => (old ? updatable(quota, tree) : creatable(quota, tree)),
    () => selfRules(quota),
    ...topologyRules({ quota, old, tree, ...parts }),
  ];
}

function* creatable(quota: Quota, tree: PendingTree): Generator<Refusal> {
  const { name } = quota;
  if (tree.get(name)) {
    yield { rule: "quota-topology", message: `AddQuota quota already exist:${name}` };
    return;
  }
  for (const namespace of quota.namespaces) {
    const bound = tree.boundTo(namespace);
    if (!bound) continue;
    yield {
      rule: "quota-topology",
      message: `AddQuota quota ${name}'s annotation namespace ${namespace} is already bound to quota ${bound.name}`,
    };
    return;
  }
}

function* updatable(quota: Quota, tree: PendingTree): Generator<Refusal> {
  const { name } = quota;
  if (name === systemQuota || name === rootQuota) {
    yield { rule: "quota-topology", message: `invalid quota ${name}` };
    return;
  }
  for (const namespace of quota.namespaces) {
    const bound = tree.boundTo(namespace);
    if (!bound || bound.name === name) continue;
    yield {
      rule: "quota-topology",
      message: `UpdadteQuota, quota ${name} update namespaces, but namespace ${namespace} is already bound to quota ${bound.name}`,
    };
    return;
  }
  if (!tree.get(name))
    yield { rule: "quota-topology", message: `UpdateQuota quota not exist in quotaInfoMap:${name}` };
}

const maxNamedPods = 2;

function* deletion({ name }: Quota, tree: PendingTree, { view }: CheckParts): Generator<Refusal> {
  const refuse = (message: string): Refusal => ({ rule: "quota-delete", message });
  if (name === rootQuota || name === systemQuota || name === defaultQuota) {
    yield refuse(`can not delete quotaGroup :${name}`);
    return;
  }
  if (!tree.get(name)) {
    yield refuse(`not found quota:${name}`);
    return;
  }
  const children = tree.children(name).length;
  if (children > 0) {
    yield refuse(`delete quota failed, quota ${name} has ${children} child quotas`);
    return;
  }
  const pods = view.podsWithQuotaLabel(name);
  if (pods.length === 0) return;
  const names = pods.slice(0, maxNamedPods).map((pod) => pod.name);
  const more = pods.length > maxNamedPods ? ", ..." : "";
  yield refuse(
    `delete quota failed, quota ${name} has ${pods.length} child pods: ${names.join(", ")}${more}`,
  );
}

const watchedLabels = [quotaKey.parent, quotaKey.isParent, quotaKey.treeId];

/** Whether an update leaves alone everything that is checked. */
export function isUnchanged(object: ElasticQuota, old: ElasticQuota): boolean {
  const labels = watchedLabels.every(
    (key) => (object.metadata.labels?.[key] ?? "") === (old.metadata.labels?.[key] ?? ""),
  );
  const namespaces = (each: ElasticQuota) => each.metadata.annotations?.[quotaKey.namespaces] ?? "";
  return labels && namespaces(object) === namespaces(old) && sameSpec(object, old);
}

function sameSpec({ spec }: ElasticQuota, { spec: old }: ElasticQuota): boolean {
  return (
    JSON.stringify([spec?.min ?? {}, spec?.max ?? {}]) === JSON.stringify([old?.min ?? {}, old?.max ?? {}])
  );
}
