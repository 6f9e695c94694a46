/** network: how VMs are reached. `user` needs no privilege, `bridge` gives real addresses. */
export { openBridgeNetwork } from "./bridge-network.ts";
export { openUserNetwork } from "./user-network.ts";
