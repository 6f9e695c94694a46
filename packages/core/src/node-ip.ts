import { networkInterfaces } from "node:os";
import { Fault } from "./fault.ts";

/** The first IPv4 address of this host that is not loopback. `setting` is what to set where there is none. */
export function findNodeIp(setting: string, interfaces = networkInterfaces()): string {
  const found = Object.values(interfaces)
    .flatMap((each) => each ?? [])
    .find((each) => each.family === "IPv4" && !each.internal);
  if (!found)
    throw new Fault(
      "invalid",
      `this host has no IPv4 address but loopback; set ${setting} to the node's address`,
    );
  return found.address;
}
