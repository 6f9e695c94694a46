import assert from "node:assert/strict";
import { test } from "node:test";
import { toInterface } from "./machine-namespace.ts";
import { writeTapRules } from "./tap-rules.ts";
import { formatArgs, formatRuntimeConfig } from "./attachment-arguments.ts";

const link = (prefixlen: number) =>
  JSON.stringify([
    {
      ifname: "eth0",
      address: "0a:58:0a:4d:00:05",
      mtu: 1450,
      addr_info: [
        { family: "inet6", local: "fe80::1", prefixlen: 64 },
        { family: "inet", local: "10.77.0.5", prefixlen },
      ],
    },
  ]);

test("on a bridge the guest has its network's prefix, and neighbours", () => {
  const routes = [
    { dst: "default", gateway: "10.77.0.1" },
    { dst: "10.77.0.0/24", scope: "link", prefsrc: "10.77.0.5" },
  ];
  assert.deepEqual(toInterface("eth0", link(24), JSON.stringify(routes)), {
    mac: "0a:58:0a:4d:00:05",
    mtu: 1450,
    ip: "10.77.0.5",
    prefix: 24,
    gateway: "10.77.0.1",
  });
});

test("where only the gateway is on the link the address stands alone, as ptp and Calico have it", () => {
  const ptp = [
    { dst: "default", gateway: "10.77.0.1" },
    { dst: "10.77.0.0/24", gateway: "10.77.0.1" },
    { dst: "10.77.0.1", scope: "link" },
  ];
  assert.equal(toInterface("eth0", link(24), JSON.stringify(ptp)).prefix, 32);
  const calico = [
    { dst: "default", gateway: "169.254.1.1" },
    { dst: "169.254.1.1", scope: "link" },
  ];
  const { prefix, gateway } = toInterface("eth0", link(32), JSON.stringify(calico));
  assert.deepEqual([prefix, gateway], [32, "169.254.1.1"]);
});

test("a network without IPv4 addresses is refused with the reason", () => {
  const bare = JSON.stringify([{ address: "0a:58:0a:4d:00:05", mtu: 1500, addr_info: [] }]);
  assert.throws(() => toInterface("eth0", bare, ""), /CNI gave eth0 no IPv4 address/);
});

test("the guest may send from its own addresses only, and to no metadata service", () => {
  const rules = writeTapRules([{ ifName: "eth0", tap: "tapA-0", mac: "0a:58:0a:4d:00:05", ip: "10.77.0.5" }]);
  assert.match(rules, /hook ingress device "tapA-0" priority 0; policy drop;/);
  assert.match(rules, /ether saddr != 0a:58:0a:4d:00:05 drop\n.*127\.0\.0\.0\/8, 169\.254\.169\.254.*drop\n/);
  assert.match(rules, /ip saddr 10\.77\.0\.5 fwd to "eth0"\n/);
});

test("plugins learn the pod, its ports of the host and its limits", () => {
  const pod = { namespace: "team", name: "agent-0", uid: "u1" };
  assert.equal(
    formatArgs({ vmId: "VM1", vmName: "vm", pod }),
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=team;K8S_POD_NAME=agent-0;K8S_POD_INFRA_CONTAINER_ID=VM1;K8S_POD_UID=u1",
  );
  assert.throws(() => formatArgs({ vmId: "VM1", vmName: "a;b=c", pod: undefined }), /cannot be passed/);
  assert.deepEqual(formatRuntimeConfig({}), {});
  const hostPorts = [{ hostPort: 80, guestPort: 8080, protocol: "tcp", hostIp: "192.0.2.1" } as const];
  assert.deepEqual(formatRuntimeConfig({ hostPorts, bandwidth: { egressBitsPerSecond: 1e8 } }), {
    portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp", hostIP: "192.0.2.1" }],
    bandwidth: { egressRate: 1e8, egressBurst: 1e7 },
  });
});
