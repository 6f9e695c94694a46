/** How a quota must fit to its parent, its siblings and its children. */
import type { Gates } from "../gates.ts";
import { rootQuota } from "../keys.ts";
import { exceeding, largest, sum, type Resources } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import type { Quota } from "./quota-tree.ts";
import type { PendingTree } from "./pending-tree.ts";

export interface TopologyCheck {
  readonly quota: Quota;
  readonly old: Quota | undefined;
  readonly tree: PendingTree;
  readonly gates: Gates;
  readonly view: Pick<ClusterView, "podsWithQuotaLabel" | "podsInNamespace">;
}

export function topologyRules(check: TopologyCheck): readonly (() => Iterable<Refusal>)[] {
  const { quota, tree, gates } = check;
  if (quota.name === rootQuota) return [];
  const rule = (name: Refusal["rule"], messages: () => Iterable<string>) => () => first(name, messages());
  const alone = [
    rule("quota-topology", () => parentFlag(check)),
    rule("quota-topology", () => treeIds(check)),
  ];
  if (quota.parent === rootQuota && !quota.isParent) return alone;
  const isBound = !quota.isForced && !quota.isRoot;
  return [
    ...alone,
    rule("quota-topology", () => parentExists(check)),
    rule("quota-cycle", () => cycle(check)),
    rule("quota-topology", () => keySets(check)),
    ...(gates.ElasticQuotaChildMaxWithinParent
      ? [rule("quota-child-max", () => maxWithinParent(check))]
      : []),
    ...(isBound ? [rule("quota-topology", () => minSums(check))] : []),
    ...(isBound && gates.ElasticQuotaGuaranteeUsage
      ? [rule("quota-topology", () => optional(findGuaranteeProblem(quota, tree)))]
      : []),
  ];
}

function* first(rule: Refusal["rule"], messages: Iterable<string>): Generator<Refusal> {
  for (const message of messages) {
    yield { rule, message };
    return;
  }
}

function optional(message: string | undefined): string[] {
  return message === undefined ? [] : [message];
}

function* parentFlag({ quota, old, tree, view }: TopologyCheck): Generator<string> {
  if (!old || old.isParent === quota.isParent) return;
  if (!quota.isParent) {
    if (tree.children(quota.name).length > 0)
      yield `quota has children, isParent is forbidden to modify as false, quotaName:${quota.name}`;
    return;
  }
  const bound =
    view.podsWithQuotaLabel(quota.name).length > 0 ||
    [quota.name, ...old.namespaces].some((namespace) => view.podsInNamespace(namespace).length > 0);
  if (bound) yield `quota has bound pods, isParent is forbidden to modify as true, quotaName: ${quota.name}`;
}

function* treeIds({ quota, old, tree }: TopologyCheck): Generator<string> {
  const { name, treeId, parent } = quota;
  if (old && old.treeId !== treeId) yield `${name} tree id changed [${old.treeId}] vs [${treeId}]`;
  const above = parent === rootQuota ? undefined : tree.get(parent);
  if (above && above.treeId !== treeId)
    yield `${name} tree id is different from parent ${parent}, [${treeId}] vs [${above.treeId}]`;
  const below = tree.children(name).find((each) => each.treeId !== treeId);
  if (below) yield `${name} tree id is different from child ${below.name}, [${treeId}] vs [${below.treeId}]`;
}

function* parentExists({ quota: { name, parent }, tree }: TopologyCheck): Generator<string> {
  if (parent === rootQuota) return;
  const found = tree.get(parent);
  if (!found) yield `${name} has parentName ${parent} but not find parentInfo in quotaInfoMap`;
  else if (!found.isParent)
    yield `${name} has parentName ${parent} but the parentQuotaInfo's IsParent is false`;
}

/** A quota that is its own ancestor could never be changed again. */
function* cycle({ quota, tree }: TopologyCheck): Generator<string> {
  const seen = new Set<string>([quota.name]);
  for (let name = quota.parent; name !== rootQuota; name = tree.get(name)?.parent ?? rootQuota) {
    if (seen.has(name)) {
      yield `${quota.name} cannot have parent ${quota.parent}: it would become its own ancestor`;
      return;
    }
    seen.add(name);
  }
}

const formatKeyProblem = (text: string) =>
  `failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: ${text}`;

function* keySets({ quota, tree, gates }: TopologyCheck): Generator<string> {
  const subset = gates.ElasticQuotaEnableUpdateResourceKey;
  const fits = (below: Resources, above: Resources) =>
    includes(above, below) && (subset || includes(below, above));
  const parent = quota.parent === rootQuota ? undefined : tree.get(quota.parent);
  if (parent) {
    if (!fits(quota.max, parent.max))
      yield formatKeyProblem(`${parent.name}'s max keys are not the same with ${quota.name}'s`);
    if (!includes(parent.min, quota.min))
      yield formatKeyProblem(`${quota.name}'s min keys are not all included in ${parent.name}'s`);
  }
  for (const child of tree.children(quota.name)) {
    if (!fits(child.max, quota.max))
      yield formatKeyProblem(`${child.name}'s max keys are not the same with ${quota.name}'s`);
    if (!includes(quota.min, child.min))
      yield formatKeyProblem(`${child.name}'s min keys are not all included in ${quota.name}'s`);
  }
}

function includes(larger: Resources, smaller: Resources): boolean {
  return [...smaller.keys()].every((key) => larger.has(key));
}

function* minSums({ quota, tree }: TopologyCheck): Generator<string> {
  const { name, parent } = quota;
  if (parent !== rootQuota) {
    const siblings = tree.children(parent).filter((each) => each.name !== name);
    const total = sum([quota.min, ...siblings.map((each) => tree.asChild(each))]);
    const room = tree.asParent(parent);
    if (room && exceeding(total, room).length > 0)
      yield `checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: ${parent}`;
  }
  const total = sum(tree.children(name).map((each) => tree.asChild(each)));
  if (exceeding(total, quota.min).length > 0)
    yield `checkMinQuotaSum all children's MinQuota > current MinQuota, current: ${name}`;
}

function* maxWithinParent({ quota, tree }: TopologyCheck): Generator<string> {
  const parent = quota.parent === rootQuota ? undefined : tree.get(quota.parent);
  const beyond = parent ? exceeding(quota.max, parent.max) : [];
  if (parent && beyond.length > 0)
    yield `${quota.name} max is more than the max of its parent ${parent.name}, in dimensions :[${beyond.toSorted().join(" ")}]`;
  for (const child of tree.children(quota.name)) {
    const over = exceeding(child.max, quota.max);
    if (over.length > 0)
      yield `max of child ${child.name} is more than the max of ${quota.name}, in dimensions :[${over.toSorted().join(" ")}]`;
  }
}

/** A minimum beyond the guarantee needs an ancestor whose guarantee covers its minimum and its children's guarantees. */
function findGuaranteeProblem(quota: Quota, tree: PendingTree): string | undefined {
  if (quota.treeId === "" || exceeding(quota.min, quota.guaranteed).length === 0) return undefined;
  let below: { readonly name: string; readonly guaranteed: Quota["guaranteed"] } = {
    name: quota.name,
    guaranteed: largest([quota.guaranteed, quota.min]),
  };
  const seen = new Set<string>([quota.name]);
  let parent = quota.parent;
  let top = quota.name;
  while (parent !== rootQuota && !seen.has(parent)) {
    seen.add(parent);
    const above = tree.get(parent);
    if (!above) break;
    const siblings = tree.children(parent).filter(({ name }) => name !== below.name);
    const needed = largest([above.min, sum([below.guaranteed, ...siblings.map((each) => each.guaranteed)])]);
    if (exceeding(needed, above.guaranteed).length === 0) return undefined;
    top = above.name;
    below = { name: above.name, guaranteed: needed };
    parent = above.parent;
  }
  return `tree root quota ${top} can't guarantee for min ${quota.name}`;
}
