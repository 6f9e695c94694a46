/** The CNI network with real plugins and real guests, on hosts that are namespaces of the test's own. */
import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { demoImageName } from "@cocoon/images";
import { testLibrary } from "../vm-images/boot-guest.ts";
import { bridgeList, openCniHost, ptpList, type CniHost } from "./cni-host.ts";

const worker = join(import.meta.dirname, "cni-worker.ts");
const signal = AbortSignal.timeout(900_000);

before(async () => {
  const library = testLibrary();
  await library.pull(demoImageName, { signal });
  await library.resolve(demoImageName, { signal }); // what it is built from is fetched here: the hosts below reach nothing
});

async function play(
  host: CniHost,
  scenario: string,
  ...rest: readonly string[]
): Promise<Record<string, unknown>> {
  await chmod(host.directory, 0o711);
  const root = join(host.directory, "root");
  const out = await host.must(process.execPath, worker, root, host.confDirectory, scenario, ...rest);
  return JSON.parse(out) as Record<string, unknown>;
}

test("machines on a bridge reach each other at the addresses of their pods, and leave nothing", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  const told = await play(host, "twoGuests", "10.77.0.1");
  const [one, two] = told["ips"] as string[];
  assert.match(one ?? "", /^10\.77\.0\.\d+$/);
  assert.notEqual(one, two);
  const { guest, addresses, macs, ips: _ips, ...seen } = told;
  assert.deepEqual(addresses, [
    { ip: one, routable: true, forwards: [] },
    { ip: two, routable: true, forwards: [] },
  ]);
  assert.deepEqual(seen, {
    ping: "yes",
    pingBack: "yes",
    ssh: "SSH-",
    hostPort: "SSH-",
    metadata: "no",
    spoofed: "no",
  });
  assert.match(String(guest), new RegExp(`inet ${one}/24`));
  assert.match(String(guest), /^1450$/m);
  assert.match(
    String(guest),
    /search default\.svc\.cluster\.local svc\.cluster\.local\nnameserver 10\.96\.0\.10/,
  );
  assert.match(String(guest), /default via 10\.77\.0\.1/);
  const [planned, seenMac] = macs as string[];
  assert.equal(seenMac, planned);
  assert.deepEqual(await host.listLeftovers(), []);
  assert.deepEqual(await host.listLeased(), []);
});

test("machines on routed links reach each other through the host", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", ptpList(host));
  await host.must("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
  const told = await play(host, "twoGuests", "10.78.0.1");
  const [one] = told["ips"] as string[];
  assert.match(String(told["guest"]), new RegExp(`inet ${one}/32`), "no neighbour is on its link");
  assert.deepEqual(
    [told["ping"], told["pingBack"], told["ssh"], told["spoofed"]],
    ["yes", "yes", "SSH-", "no"],
  );
  assert.deepEqual(await host.listLeftovers(), []);
  assert.deepEqual(await host.listLeased(), []);
});

test("a machine that wakes has its own address in the guest before it is ready, and no connection of the old one", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  const { ip, own, guest, mac, reaches, reached, ended, goesOn } = await play(host, "wake");
  assert.notEqual(own, ip);
  assert.match(String(guest), new RegExp(`inet ${String(own)}/24[^]*${String(mac)}`));
  assert.doesNotMatch(String(guest), new RegExp(`inet ${String(ip)}/`));
  assert.deepEqual([reaches, reached], ["yes", "yes"]);
  assert.deepEqual([ended, goesOn], ["client-ended\nserver-ended", ""], "connections of the old address end");
  assert.deepEqual(await host.listLeftovers(), []);
  assert.deepEqual(await host.listLeased(), []);
});
