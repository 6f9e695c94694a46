/** network: how VMs are reached. `user` needs no privilege, `bridge` gives real addresses, `cni` the cluster's. */
export { openBridgeNetwork } from "./bridge-network.ts";
export { openUserNetwork } from "./user-network.ts";
export { isPlainList, listCniNetworks, openCniNetwork } from "./cni/cni-network.ts";
export { findMissingPlugins, removeMachineNamespaces } from "./cni/host.ts";
export { findCniProblems } from "./cni/cni-doctor.ts";
export type { PluginCall } from "./cni/plugins.ts";
