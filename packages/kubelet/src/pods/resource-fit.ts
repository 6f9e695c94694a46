/** Whether a pod fits on the node: what the scheduler should have seen, checked again where it counts. */
import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  quantityMillis,
  quantityOf,
  quantityUnits,
  type Quantity,
} from "@cocoon/core/quantity";
import type { Pod } from "../provider.ts";
import { isTerminal } from "./compare-pods.ts";

export interface Misfit {
  readonly reason: string;
  readonly message: string;
}

type Requests = ReadonlyMap<string, Quantity>;

/** Each new pod is weighed against all others, which stay the same objects while nobody changes them. */
const known = new WeakMap<Pod, Requests>();

function requestsOf(pod: Pod): Requests {
  const found = known.get(pod) ?? sumRequests(pod);
  known.set(pod, found);
  return found;
}

/** Requests of a pod by resource: containers together, or the largest init container when that is more. */
function sumRequests(pod: Pod): Requests {
  const total = new Map<string, Quantity>();
  for (const container of pod.spec.containers) {
    for (const [resource, text] of Object.entries(container.resources?.requests ?? {})) {
      total.set(resource, addQuantities(total.get(resource) ?? quantityOf(0), parseQuantity(text)));
    }
  }
  for (const container of pod.spec.initContainers ?? []) {
    for (const [resource, text] of Object.entries(container.resources?.requests ?? {})) {
      const wanted = parseQuantity(text);
      const sum = total.get(resource);
      if (!sum || compareQuantities(wanted, sum) > 0) total.set(resource, wanted);
    }
  }
  return total;
}

/** The first resource that the node cannot give, in the words of a kubelet; undefined when the pod fits. */
export function findMisfit(
  pod: Pod,
  others: Iterable<Pod>,
  allocatable: Readonly<Record<string, string>>,
): Misfit | undefined {
  const neighbours = [...others].filter(
    (other) => other.metadata.uid !== pod.metadata.uid && !isTerminal(other),
  );
  const podLimit = allocatable["pods"];
  if (podLimit !== undefined && neighbours.length + 1 > Number(podLimit)) {
    return misfit("pods", { requested: "1", used: String(neighbours.length), capacity: podLimit });
  }
  const used = new Map<string, Quantity>();
  for (const neighbour of neighbours) {
    for (const [resource, amount] of requestsOf(neighbour))
      used.set(resource, addQuantities(used.get(resource) ?? quantityOf(0), amount));
  }
  for (const [resource, requested] of requestsOf(pod)) {
    if (allocatable[resource] === undefined && isCountedByOthers(resource)) continue;
    const capacity = parseQuantity(allocatable[resource] ?? "0");
    const already = used.get(resource) ?? quantityOf(0);
    if (requested.nanos > 0n && compareQuantities(addQuantities(already, requested), capacity) > 0) {
      const show = (quantity: Quantity) =>
        String(resource === "cpu" ? quantityMillis(quantity) : quantityUnits(quantity));
      return misfit(resource, { requested: show(requested), used: show(already), capacity: show(capacity) });
    }
  }
  return undefined;
}

/** What a controller of the cluster adds to nodes (`kubernetes.io/batch-cpu`): only the scheduler can judge it. */
function isCountedByOthers(resource: string): boolean {
  return resource.startsWith("kubernetes.io/");
}

function misfit(
  resource: string,
  numbers: { readonly requested: string; readonly used: string; readonly capacity: string },
): Misfit {
  const { requested, used, capacity } = numbers;
  return {
    reason: `OutOf${resource}`,
    message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
  };
}
