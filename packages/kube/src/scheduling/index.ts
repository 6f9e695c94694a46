/** kube/scheduling: whether a pod fits on a node: resources, number of pods, host ports, taints, selector and affinity. */
export { addAmounts, computeRequests, readAmounts, subtractAmounts, type Amounts } from "./amounts.ts";
export {
  findLoadMisfit,
  findMisfit,
  readNodeSupply,
  type Misfit,
  type NodeLoad,
  type NodeSupply,
} from "./fit.ts";
export {
  readHostPorts,
  getRequiredNodeTerms,
  readPodDemand,
  type HostPort,
  type PodDemand,
} from "./pod-demand.ts";
