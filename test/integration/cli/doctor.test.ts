/** `doctor` on a host with a CNI configuration: what it names is in the way, and what it advises helps. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { bridgeList, openCniHost } from "../vm-network/cni-host.ts";

const main = join(import.meta.dirname, "../../../packages/cli/src/main.ts");

test("doctor names what keeps machines from the cluster's network, each with its fix", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  const look = async () => {
    const env = [`COCOON_HOME=${host.directory}/home`, `VK_CNI_CONF_DIR=${host.confDirectory}`];
    const { stdout } = await host.inside("env", ...env, process.execPath, main, "doctor");
    return /network of machines[^]*?(?=\n\S* *network of up)/.exec(stdout)?.[0] ?? stdout;
  };
  const broken = [
    "echo 0 > /proc/sys/net/ipv4/ip_forward",
    "echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables",
    "nft 'add table inet guard; add chain inet guard passing { type filter hook forward priority 0; policy drop; }'",
  ];
  await host.must("sh", "-ec", broken.join("\n"));
  const found = await look();
  assert.match(found, /does not forward packets/);
  assert.match(found, /Services do not lead from a machine to one on the same bridge/);
  assert.match(found, /firewall drops forwarded packets by default \(chain passing of table guard\)/);
  assert.match(found, /add the plugin firewall to the CNI list/);
  const fixes = found.match(/sysctl -w [\w.-]+=1/g) ?? [];
  assert.equal(fixes.length, 2, found);
  await host.must("sh", "-ec", [...fixes, "nft delete table inet guard"].join("\n"));
  assert.match(await look(), /CNI network "machines" of/);
});
