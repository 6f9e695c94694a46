/** Which node holds the VM of a machine, by what the nodes have published last. */
import { nodeAnnotation } from "@cocoon/contract";
import { isConditionTrue } from "@cocoon/core/conditions";
import type { Node } from "@cocoon/kube";
import { outOfServiceTaint } from "../slim.ts";
import type { Holder } from "./observed-set.ts";
import type { SetParts } from "./parts.ts";

/** The names of its VMs, frozen ones included. */
export function listHeld(node: Node): string[] {
  return [...readNames(node, nodeAnnotation.machines), ...readNames(node, nodeAnnotation.frozenMachines)];
}

/**
 * Of several nodes the one that can be used: the others hold what was superseded. A frozen VM counts when no other is
 * known: etcd may have been restored to before its machine moved there, and an empty machine must not replace it.
 */
export function findHolder(
  { nodesByMachine }: Pick<SetParts, "nodesByMachine">,
  vmName: string,
): Holder | undefined {
  const found = nodesByMachine.get(vmName);
  const awake = found.filter((node) => readNames(node, nodeAnnotation.machines).includes(vmName));
  const holders = (awake.length > 0 ? awake : found).map((node) => ({
    node: node.metadata.name ?? "",
    usable:
      isConditionTrue(node.status?.conditions, "Ready") &&
      !node.spec?.unschedulable &&
      !node.spec?.taints?.some(({ key }) => key === outOfServiceTaint),
  }));
  return holders.find(({ usable }) => usable) ?? holders[0];
}

function readNames({ metadata }: Node, key: string): string[] {
  return (metadata.annotations?.[key] ?? "").split(",").filter((name) => name !== "");
}
