/** Whether a pod fits on a node, by the scheduler's rules; without pod affinity, topology spread, volumes and claims. */
import { matchesLabels } from "@cocoon/core/label-selector";
import type { Node, Taint, Toleration } from "../builtin-objects.ts";
import { readAmounts, type Amounts } from "./amounts.ts";
import { findPortConflict, type HostPort } from "./pod-demand.ts";
import type { NodeTerm, PodDemand } from "./pod-demand.ts";

export interface NodeSupply {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  readonly unschedulable: boolean;
  readonly allocatable: Amounts;
}

export interface NodeLoad {
  readonly pods: number;
  readonly amounts: Amounts;
  readonly hostPorts?: readonly HostPort[];
}

export type Misfit =
  | { readonly kind: "unschedulable" | "affinity" }
  | { readonly kind: "taint"; readonly taint: Taint }
  | { readonly kind: "port"; readonly port: HostPort }
  | {
      readonly kind: "resource";
      readonly resource: string;
      readonly requested: number;
      readonly used: number;
      readonly capacity: number;
    };

export function readNodeSupply({ metadata, spec, status }: Node): NodeSupply {
  return {
    name: metadata.name ?? "",
    labels: metadata.labels ?? {},
    taints: spec?.taints ?? [],
    unschedulable: spec?.unschedulable ?? false,
    allocatable: readAmounts(status?.allocatable),
  };
}

export function findMisfit(node: NodeSupply, demand: PodDemand, load: NodeLoad): Misfit | undefined {
  return findPlacementMisfit(node, demand) ?? findLoadMisfit(node.allocatable, demand, load);
}

const unschedulableTaint: Taint = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

/** What does not depend on the other pods of the node: cordon, taints, selector and affinity. */
function findPlacementMisfit(node: NodeSupply, demand: PodDemand): Misfit | undefined {
  const { tolerations } = demand;
  if (node.unschedulable && !isTolerated(unschedulableTaint, tolerations)) return { kind: "unschedulable" };
  const taint = node.taints.find((each) => isHard(each) && !isTolerated(each, tolerations));
  if (taint) return { kind: "taint", taint };
  return isSelected(node, demand) ? undefined : { kind: "affinity" };
}

/** What depends on them: their number, host ports and resources. */
export function findLoadMisfit(
  allocatable: Amounts,
  { requests, hostPorts }: Pick<PodDemand, "requests" | "hostPorts">,
  load: NodeLoad,
): Misfit | undefined {
  const port = findPortConflict(hostPorts, load.hostPorts ?? []);
  if (port) return { kind: "port", port };
  const maxPods = allocatable["pods"];
  if (maxPods !== undefined && load.pods + 1 > maxPods)
    return { kind: "resource", resource: "pods", requested: 1, used: load.pods, capacity: maxPods };
  for (const [resource, requested] of Object.entries(requests)) {
    const used = load.amounts[resource] ?? 0;
    const capacity = allocatable[resource] ?? 0;
    if (requested > 0 && requested > capacity - used)
      return { kind: "resource", resource, requested, used, capacity };
  }
  return undefined;
}

function isHard({ effect }: Taint): boolean {
  return effect === "NoSchedule" || effect === "NoExecute";
}

function isTolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerations.some(
    ({ key, operator, value, effect }) =>
      (!effect || effect === taint.effect) &&
      (key ? key === taint.key : operator === "Exists") &&
      (operator === "Exists" || (value ?? "") === (taint.value ?? "")),
  );
}

function isSelected(node: NodeSupply, { selector, terms }: PodDemand): boolean {
  for (const [key, value] of Object.entries(selector)) if (node.labels[key] !== value) return false;
  return terms === undefined || terms.some((term) => matchesTerm(node, term));
}

function matchesTerm({ name, labels }: NodeSupply, term: NodeTerm): boolean {
  return matchesLabels(term.labels, labels) && matchesLabels(term.fields, { "metadata.name": name });
}
