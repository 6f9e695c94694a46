/** Which quota a pod belongs to, and that it is one which takes pods. */
import type { Gates } from "../gates.ts";
import { defaultQuota, quotaKey } from "../keys.ts";
import type { QuotaTree } from "../quota/quota-tree.ts";
import type { Refusal } from "../rules.ts";
import type { Texts } from "../json.ts";

interface Member {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Texts;
}

/** The name that counts; it need not be of a quota that exists. */
export function quotaNameOf({ labels, namespace }: Member, tree: QuotaTree, gates: Gates): string {
  const label = labels[quotaKey.name];
  if (label) return label;
  if (!gates.DisableDefaultQuota && tree.named(namespace).some((each) => each.namespace === namespace))
    return namespace;
  return tree.boundTo(namespace)?.name ?? defaultQuota;
}

export function* quotaMembershipRules(
  { pod, old }: { readonly pod: Member; readonly old: Member | undefined },
  tree: QuotaTree,
  gates: Gates,
): Generator<Refusal> {
  if (old && (pod.labels[quotaKey.preemptible] ?? "") !== (old.labels[quotaKey.preemptible] ?? ""))
    yield { rule: "quota-preemptible", message: "Preemptible label is forbidden modify now." };
  if (gates.SupportParentQuotaSubmitPod) return;
  const name = quotaNameOf(pod, tree, gates);
  if (tree.get(name)?.isParent)
    yield {
      rule: "quota-membership",
      message: `pod can not be linked to a parentQuotaGroup,quota:${name}, pod:${pod.name}`,
    };
}
