/** Whether somebody up the tree can stand for a quota's minimum. */
import { rootQuota } from "../keys.ts";
import { exceeding, largest, sum } from "../resources.ts";
import type { PendingTree } from "./pending-tree.ts";
import type { Quota } from "./quota-tree.ts";

/**
 * A minimum beyond what is guaranteed needs an ancestor whose own guarantee covers the larger of its minimum and the
 * sum of its children's guarantees, this one's new included. Undefined when it is found or not needed.
 */
export function guaranteeTrouble(quota: Quota, tree: PendingTree): string | undefined {
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
