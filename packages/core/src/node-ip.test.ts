import assert from "node:assert/strict";
import type { NetworkInterfaceInfo } from "node:os";
import { test } from "node:test";
import { findNodeIp } from "./node-ip.ts";

const common = { netmask: "", mac: "", cidr: null };
const ipv4 = (address: string, internal = false): NetworkInterfaceInfo => ({
  ...common,
  family: "IPv4",
  address,
  internal,
});

test("the node's address is the first IPv4 address that is not loopback", () => {
  const eth0 = [{ ...common, family: "IPv6" as const, address: "fd00::1", internal: false, scopeid: 0 }];
  const lo = [ipv4("127.0.0.1", true)];
  assert.equal(
    findNodeIp("NODE_IP", { lo, eth0: [...eth0, ipv4("10.0.0.7")], eth1: [ipv4("10.0.0.8")] }),
    "10.0.0.7",
  );
  assert.throws(() => findNodeIp("NODE_IP", { lo, eth0 }), /no IPv4 address but loopback; set NODE_IP to/);
});
