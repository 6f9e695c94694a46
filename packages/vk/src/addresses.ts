/** Addresses of this host. */
import { networkInterfaces } from "node:os";
import { Fault } from "@cocoon/core";

/** The first IPv4 address that is not loopback. */
export function findNodeIp(): string {
  const found = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find((each) => each.family === "IPv4" && !each.internal);
  if (!found) throw new Fault("invalid", "this host has no IPv4 address but loopback; set VK_NODE_IP");
  return found.address;
}
