/** Addresses of this host, and how listeners are written. */
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

/** `:9091` or `127.0.0.1:9091`. */
export function readListenAddress(text: string): { readonly host: string; readonly port: number } {
  const match = /^(.*):(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535)
    throw new Fault("invalid", `VK_METRICS_ADDR: "${text.slice(0, 100)}" is not [host]:port`);
  return { host: match[1] === "" ? "0.0.0.0" : (match[1] ?? ""), port };
}
