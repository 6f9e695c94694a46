/** How vk-cocoon connects VMs, by its environment; the bridge is made in a network name space of the test's own. */
import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";
import { bridgeList, openCniHost } from "../vm-network/cni-host.ts";
import { openTestNetwork } from "../vm-network/namespaces.ts";

const worker = join(import.meta.dirname, "network-worker.ts");

interface Told {
  readonly networks: readonly string[];
  readonly plans: Readonly<Record<string, { nic: { ip?: string; tap?: string }; netdev: string }>>;
}

test("VK_BRIDGE makes the bridge with its subnet, name servers and denied networks, and VMs are on it by default", async () => {
  await using wire = await openTestNetwork();
  await using root = await temporaryDirectory();
  const settings = {
    COCOON_ROOT_DIR: root.path,
    VK_BRIDGE: "vkbr7",
    VK_BRIDGE_SUBNET: "10.99.7.0/24",
    VK_BRIDGE_DNS: "192.0.2.53,192.0.2.54",
    VK_BRIDGE_DENIED: "203.0.113.0/24",
  };
  const assignments = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  const ran = await wire.inside("env", ...assignments, process.execPath, worker);
  assert.equal(ran.code, 0, ran.stderr);
  const told = JSON.parse(ran.stdout) as Told;
  assert.deepEqual(told.networks, ["bridge", "user"], "the first is the default");

  const address = await wire.inside("ip", "-o", "-4", "address", "show", "dev", "vkbr7");
  assert.match(address.stdout, /inet 10\.99\.7\.1\/24/);
  const taps = await wire.inside("ip", "-o", "link", "show", "master", "vkbr7");
  assert.match(taps.stdout, /: \S+/, "the VM's tap is on the bridge");
  const rules = await wire.inside("nft", "list", "ruleset");
  assert.match(rules.stdout, /203\.0\.113\.0\/24/);
  assert.match(JSON.stringify(told.plans["bridge"]), /192\.0\.2\.53/);
  const dnsmasq = await wire.inside("sh", "-c", `cat ${root.path}/net/bridge/* 2>/dev/null`);
  assert.match(dnsmasq.stdout, /10\.99\.7\./);
});

test("without a bridge ports are forwarded, and addresses come from VK_USER_SUBNET", async () => {
  await using root = await temporaryDirectory();
  const env = {
    PATH: process.env["PATH"] ?? "",
    COCOON_ROOT_DIR: root.path,
    VK_USER_SUBNET: "127.99.0.0/16",
    VK_CNI_CONF_DIR: root.path,
  };
  const ran = await runCommand("env", [
    "-i",
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    process.execPath,
    worker,
  ]);
  assert.equal(ran.code, 0, ran.stderr);
  const told = JSON.parse(ran.stdout) as Told;
  assert.deepEqual(told.networks, ["user"]);
  assert.match(JSON.stringify(told.plans["user"]), /127\.99\./);
  await access(join(root.path, "net", "user"));
  const leases = await readFile(join(root.path, "net", "leases.json"), "utf8");
  assert.doesNotThrow(() => JSON.parse(leases) as unknown);
});

test("VK_NETWORK=cni connects VMs to the node's first list, and lets pods choose others", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  await host.writeList("20-other.conflist", { ...(bridgeList(host) as object), name: "other" });
  await host.writeList("30-broken.conflist", {
    cniVersion: "1.0.0",
    name: "broken",
    plugins: [{ type: "nowhere" }],
  });
  const env = [`COCOON_ROOT_DIR=${host.directory}/root`, `VK_CNI_CONF_DIR=${host.confDirectory}`];
  const told = JSON.parse(await host.must("env", ...env, "VK_NETWORK=cni", process.execPath, worker)) as Told;
  assert.deepEqual(told.networks, ["cni", "machines", "other", "user"]);
  assert.match(JSON.stringify(told.plans["cni"]), /"ip":"10\.77\.0\./);
  const chosen = await host.must("env", ...env, "VK_NETWORK=user", process.execPath, worker);
  assert.deepEqual((JSON.parse(chosen) as Told).networks, ["user"]);
  const refused = await host.inside(
    "env",
    ...env,
    "VK_NETWORK=cni",
    "VK_CNI_LIST=broken",
    process.execPath,
    worker,
  );
  assert.match(refused.stderr, /plugins of CNI network "broken" are missing in .*: nowhere/);
});
