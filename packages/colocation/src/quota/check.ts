/** One request about a quota against the tree: create, update or delete. Pure. */
import type { Gates } from "../gates.ts";
import { defaultQuota, quotaKey, rootQuota, systemQuota } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import type { ElasticQuota } from "../kinds.ts";
import type { PendingTree } from "./pending-tree.ts";
import type { Quota } from "./quota-tree.ts";
import { topologyRules } from "./topology-rules.ts";
import { canonicalQuantity, compareQuantities } from "@cocoon/core/quantity";
import { zero, type Resources } from "../resources.ts";

export type QuotaRequest =
  | { readonly operation: "CREATE"; readonly quota: Quota }
  | { readonly operation: "UPDATE"; readonly quota: Quota; readonly old: Quota }
  | { readonly operation: "DELETE"; readonly old: Quota };

export interface CheckParts {
  readonly gates: Gates;
  readonly view: Pick<ClusterView, "podsWithQuotaLabel" | "podsInNamespace">;
}

export function quotaChecks(
  request: QuotaRequest,
  tree: PendingTree,
  parts: CheckParts,
): readonly (() => Iterable<Refusal>)[] {
  if (request.operation === "DELETE")
    return [() => refuse("quota-delete", findDeletionProblem(request.old, tree, parts))];
  const { quota } = request;
  const old = request.operation === "UPDATE" ? request.old : undefined;
  return [
    () => refuse("quota-topology", old ? findUpdateProblem(quota, tree) : findCreateProblem(quota, tree)),
    () => selfRules(quota),
    ...topologyRules({ quota, old, tree, ...parts }),
  ];
}

function refuse(rule: Refusal["rule"], message: string | undefined): Refusal[] {
  return message === undefined ? [] : [{ rule, message }];
}

function findCreateProblem({ name, namespaces }: Quota, tree: PendingTree): string | undefined {
  if (tree.get(name)) return `AddQuota quota already exist:${name}`;
  const bound = findBound(namespaces, tree, () => true);
  return (
    bound &&
    `AddQuota quota ${name}'s annotation namespace ${bound.namespace} is already bound to quota ${bound.name}`
  );
}

function findUpdateProblem({ name, namespaces }: Quota, tree: PendingTree): string | undefined {
  if (name === systemQuota || name === rootQuota) return `invalid quota ${name}`;
  const bound = findBound(namespaces, tree, (other) => other !== name);
  if (bound)
    return `UpdadteQuota, quota ${name} update namespaces, but namespace ${bound.namespace} is already bound to quota ${bound.name}`;
  return tree.get(name) ? undefined : `UpdateQuota quota not exist in quotaInfoMap:${name}`;
}

/** The first of the namespaces that is bound to such a quota. */
function findBound(namespaces: readonly string[], tree: PendingTree, counts: (quota: string) => boolean) {
  return namespaces
    .map((namespace) => ({ namespace, name: tree.boundTo(namespace)?.name }))
    .find(({ name }) => name !== undefined && counts(name));
}

const maxNamedPods = 2;

function findDeletionProblem({ name }: Quota, tree: PendingTree, { view }: CheckParts): string | undefined {
  if (name === rootQuota || name === systemQuota || name === defaultQuota)
    return `can not delete quotaGroup :${name}`;
  if (!tree.get(name)) return `not found quota:${name}`;
  const children = tree.children(name).length;
  if (children > 0) return `delete quota failed, quota ${name} has ${children} child quotas`;
  const pods = view.podsWithQuotaLabel(name);
  if (pods.length === 0) return undefined;
  const names = pods.slice(0, maxNamedPods).map((pod) => pod.name);
  const more = pods.length > maxNamedPods ? ", ..." : "";
  return `delete quota failed, quota ${name} has ${pods.length} child pods: ${names.join(", ")}${more}`;
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

/** What must hold of a quota whatever the others are. */
export function* selfRules(quota: Quota): Generator<Refusal> {
  for (const message of findProblems(quota)) {
    yield { rule: "quota-self", message };
    return;
  }
}

function* findProblems(quota: Quota): Generator<string> {
  const { name, max, min, sharedWeight } = quota;
  yield* negative(max, (keys) => `${name} quota.Spec.Max's value < 0, in dimensions :${keys}`);
  yield* negative(min, (keys) => `${name} quota.Spec.Min's value < 0, in dimensions :${keys}`);
  if (sharedWeight?.problem !== undefined) yield sharedWeight.problem;
  yield* negative(
    sharedWeight?.value ?? new Map(),
    (keys) => `${name} quota.Annotation[${quotaKey.sharedWeight}]'s value < 0, in dimension :${keys}`,
  );
  yield* minWithinMax(quota);
  if (quota.strictKeysProblem !== undefined)
    yield `${name} quota.Annotation[${quotaKey.strictKeys}]: ${quota.strictKeysProblem}`;
  yield* usedWithinMax(quota);
}

function* negative(list: Resources, wording: (keys: string) => string): Generator<string> {
  const keys = [...list].filter(([, quantity]) => compareQuantities(quantity, zero) < 0).map(([key]) => key);
  if (keys.length > 0) yield wording(`[${keys.toSorted().join(" ")}]`);
}

function* minWithinMax({ name, min, max }: Quota): Generator<string> {
  for (const [key, least] of min) {
    const most = max.get(key);
    if (!most) yield `resourceKey ${key} of quota ${name} is included in min, which is not included in max`;
    else if (compareQuantities(least, most) > 0)
      yield `resourceKey ${key} of quota ${name} min ${canonicalQuantity(least)} > max ${canonicalQuantity(most)}`;
  }
}

function* usedWithinMax({ name, strictKeys, used, max }: Quota): Generator<string> {
  for (const key of strictKeys) {
    const taken = used.get(key);
    if (!taken) continue;
    const most = max.get(key);
    if (!most)
      yield `resourceKey ${key} of quota ${name} is included in used, which is not included in max but should check max >= used`;
    else if (compareQuantities(most, taken) < 0)
      yield `resourceKey ${key} of quota ${name} max ${canonicalQuantity(most)} < used ${canonicalQuantity(taken)}`;
  }
}
