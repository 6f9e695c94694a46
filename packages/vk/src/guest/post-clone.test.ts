import assert from "node:assert/strict";
import { test } from "node:test";
import { postCloneScript, type PostCloneFacts } from "./post-clone.ts";

type Facts = PostCloneFacts["vm"];
const nic = { mac: "02:00:00:00:00:07", backend: "cni", queues: 1, queueSize: 256, forwards: [] } as const;
const vm: Facts = {
  name: "vk-lab-web-0",
  hypervisor: "cloud-hypervisor",
  nics: [nic],
  config: { cpus: 1, memoryBytes: 1, storageBytes: 1, os: "linux", labels: {} },
};

test("a guest asks by DHCP with its new MAC", () => {
  assert.deepEqual(postCloneScript({ vm }).split("\n"), [
    "echo 3 > /proc/sys/vm/drop_caches",
    "echo vk-lab-web-0 > /etc/hostname",
    "if [ -d /run/systemd/system ]; then",
    "rm -f /etc/systemd/network/10-*.network",
    "printf '[Match]\\nMACAddress=02:00:00:00:00:07\\n[Network]\\nDHCP=ipv4\\n[DHCPv4]\\nClientIdentifier=mac\\n' > /etc/systemd/network/10-020000000007.network",
    "systemctl restart systemd-networkd",
    "fi",
  ]);
});

test("a fixed address, firecracker's MAC, and cloud-init", () => {
  const fixed = { ...nic, address: { ip: "10.0.0.7", prefix: 24, gateway: "10.0.0.1" } };
  const script = postCloneScript({ vm: { ...vm, hypervisor: "firecracker", nics: [fixed] } });
  assert.match(script, /ip link set eth0 address 02:00:00:00:00:07/);
  assert.match(script, /Address=10\.0\.0\.7\/24\\nGateway=10\.0\.0\.1/);
  const cloud = postCloneScript({ vm: { ...vm, config: { ...vm.config, imageType: "cloudimg" } } });
  assert.match(cloud, /cloud-init init --local/);
  assert.doesNotMatch(cloud, /MACAddress/);
});
