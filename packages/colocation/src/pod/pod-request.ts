/** What a pod asks for as a whole, counted as the scheduler counts it. */
import type { Quantity } from "@cocoon/core/quantity";
import { largest, sum, type Resources } from "../resources.ts";
import type { PodReading } from "./read-pod.ts";

/**
 * The larger of what runs together (containers and sidecars) and of each init container with the sidecars started
 * before it; cpu and memory asked for by the pod as a whole replace that; then the overhead. Limits never count.
 */
export function podRequest(pod: PodReading): Resources {
  const base = new Map(ofContainers(pod));
  for (const name of ["cpu", "memory"]) {
    const quantity = pod.podRequests.get(name);
    if (quantity) base.set(name, quantity);
  }
  return pod.overhead.size === 0 ? base : sum([base, pod.overhead]);
}

function ofContainers({ containers, initContainers }: PodReading): ReadonlyMap<string, Quantity> {
  if (initContainers.length === 0) return sum(containers.map((each) => each.requests));
  let sidecars: Resources = new Map();
  const peaks: Resources[] = [];
  for (const each of initContainers) {
    const withEarlier = sum([sidecars, each.requests]);
    peaks.push(withEarlier);
    if (each.isSidecar) sidecars = withEarlier;
  }
  return largest([sum([...containers.map((each) => each.requests), sidecars]), ...peaks]);
}
