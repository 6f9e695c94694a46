/** network: how VMs are reached. `user` needs no privilege, `bridge` gives real addresses. */
export { openBridgeNetwork, type BridgeNetwork } from "./bridge-network.ts";
export type { BridgeNetworkOptions } from "./bridge-settings.ts";
export { openUserNetwork, type UserNetworkOptions } from "./user-network.ts";
