/** Whether a pod fits on the node: what the scheduler should have seen, checked again where the pod starts. */
import {
  addAmounts,
  computeRequests,
  findLoadMisfit,
  readAmounts,
  readHostPorts,
  type Amounts,
  type HostPort,
} from "@cocoon/kube/scheduling";
import type { Pod } from "../provider.ts";
import { isTerminal } from "./pod-status.ts";

export interface Misfit {
  readonly reason: string;
  readonly message: string;
}

interface Demand {
  readonly requests: Amounts;
  readonly hostPorts: readonly HostPort[];
}

/** Each new pod is compared with all others, which stay the same objects until they change. */
const known = new WeakMap<Pod, Demand>();

function readDemand(pod: Pod): Demand {
  const found = known.get(pod) ?? {
    requests: computeRequests(pod.spec),
    hostPorts: readHostPorts(pod.spec),
  };
  known.set(pod, found);
  return found;
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
  const load = {
    pods: neighbours.length,
    amounts: neighbours.reduce<Amounts>((sum, each) => addAmounts(sum, readDemand(each).requests), {}),
    hostPorts: neighbours.flatMap((each) => readDemand(each).hostPorts),
  };
  const demand = readDemand(pod);
  const requests = Object.fromEntries(
    Object.entries(demand.requests).filter(
      ([resource]) => allocatable[resource] !== undefined || !isCountedByOthers(resource),
    ),
  );
  const misfit = findLoadMisfit(readAmounts(allocatable), { ...demand, requests }, load);
  if (!misfit) return undefined;
  if (misfit.kind !== "resource")
    return { reason: "NodePorts", message: "Node didn't have free ports for the requested pod ports" };
  const { resource, requested, used, capacity } = misfit;
  return {
    reason: `OutOf${resource}`,
    message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
  };
}

/** What a controller of the cluster adds to nodes (`kubernetes.io/batch-cpu`): only the scheduler can decide about it. */
function isCountedByOthers(resource: string): boolean {
  return resource.startsWith("kubernetes.io/");
}
