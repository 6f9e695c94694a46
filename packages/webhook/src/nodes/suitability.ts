/** Whether a node can take a pod now; the reason when it cannot. */
import { matchesLabels } from "@cocoon/core/label-selector";
import type { Taint, Toleration } from "@cocoon/kube";
import { shortage, type Amounts } from "./amounts.ts";
import type { NodeFacts } from "./node-facts.ts";
import type { NodeTerm, PodShape } from "./pod-shape.ts";

export interface Load {
  readonly pods: number;
  readonly amounts: Amounts;
}

export function unsuitability(node: NodeFacts, shape: PodShape, load: Load): string | undefined {
  if (!node.ready) return "is not ready";
  if (node.cordoned) return "is cordoned";
  const taint = node.taints.find((each) => isHard(each) && !isTolerated(each, shape.tolerations));
  if (taint) return `has taint ${taint.key}`;
  if (!isSelected(node, shape)) return "does not match the pod's node selector or affinity";
  const lack = lackOf(node, shape, load);
  return lack === undefined ? undefined : `has not enough ${lack}`;
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

function isSelected(node: NodeFacts, { selector, terms }: PodShape): boolean {
  const { labels } = node.metadata;
  for (const [key, value] of Object.entries(selector)) if (labels[key] !== value) return false;
  return terms === undefined || terms.some((term) => matchesTerm(node, term));
}

function matchesTerm({ metadata }: NodeFacts, { labels, fields }: NodeTerm): boolean {
  return matchesLabels(labels, metadata.labels) && matchesLabels(fields, { "metadata.name": metadata.name });
}

function lackOf({ allocatable }: NodeFacts, { requests }: PodShape, load: Load): string | undefined {
  if (load.pods + 1 > (allocatable["pods"] ?? Infinity)) return "room for another pod";
  return shortage(requests, (name) => (allocatable[name] ?? 0) - (load.amounts[name] ?? 0));
}
