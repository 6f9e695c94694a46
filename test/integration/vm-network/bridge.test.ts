/** The bridge network with real guests, in name spaces of its own: leases, reach, isolation, spoofing, clean removal. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { Fault } from "@cocoon/core";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import { openBridgeNetwork } from "@cocoon/qemu";
import type { BootableImage, NicPlan } from "@cocoon/vm";
import { bootGuest, runIn, testLibrary, type TestGuest } from "../vm-images/boot-guest.ts";
import { openTestNetwork, type TestNetwork } from "./namespaces.ts";

const library = testLibrary();
const signal = AbortSignal.timeout(900_000);
const options = { signal };
let image: BootableImage;

before(async () => {
  await library.pull(demoImageName, options);
  image = await library.resolve(demoImageName, options);
});

// oxlint-disable-next-line max-params -- the wire, who is on it, and what his card says
async function boot(wire: TestNetwork, plan: NicPlan | undefined, mac = plan?.nic.mac): Promise<TestGuest> {
  assert.ok(plan && mac);
  const facts = { nics: [{ ...plan.guest, mac }] };
  return bootGuest({ library, image, signal, netdev: plan.netdev, netns: wire.netns, mac, facts });
}

async function guestRun(guest: TestGuest, script: string): Promise<string> {
  return (await guest.run(["sh", "-c", script])).stdout.trim();
}

const reach = (ip: string, port: number) => `nc -w 3 ${ip} ${port} </dev/null && echo reached || echo no`;

test("guests get addresses, reach the world through the host, and not each other", async () => {
  await using wire = await openTestNetwork();
  await using directory = await temporaryDirectory();
  await using _echo = await wire.startEcho(7777);
  const network = await openBridgeNetwork(
    { directory: directory.path, netns: wire.netns, denied: ["203.0.113.0/24"] },
    options,
  );
  const request = (vmId: string, isolated = false) => ({
    vmId,
    vmName: `vm_${vmId}`,
    cpus: 1,
    spec: { isolated },
  });
  const [one] = await network.prepare(request("AAAAAAAAAA"), options);
  const [two] = await network.prepare(request("BBBBBBBBBB"), options);
  const [alone] = await network.prepare(request("CCCCCCCCCC", true), options);
  assert.equal(await network.address("AAAAAAAAAA", options), undefined, "no lease was requested yet");
  await using first = await boot(wire, one);
  await using second = await boot(wire, two);
  await using third = await boot(wire, alone);
  const findAddress = (vmId: string) =>
    eventually(
      async () => (await network.address(vmId, options))?.ip ?? assert.fail(`${vmId} has no lease`),
      {
        timeoutMs: 180_000,
      },
    );
  const [ipOne, ipTwo, ipAlone] = [
    await findAddress("AAAAAAAAAA"),
    await findAddress("BBBBBBBBBB"),
    await findAddress("CCCCCCCCCC"),
  ];
  assert.equal(new Set([ipOne, ipTwo, ipAlone]).size, 3);
  for (const [guest, ip] of [
    [first, ipOne],
    [second, ipTwo],
    [third, ipAlone],
  ] as const)
    await eventually(async () =>
      assert.match(await guestRun(guest, "ip -4 addr show eth0"), new RegExp(`inet ${ip}/24`)),
    );
  await eventually(async () =>
    assert.match(await guestRun(first, "cat /etc/resolv.conf"), /nameserver 8\.8\.8\.8/),
  );

  // From the host every port is there, and ICMP.
  assert.equal((await wire.inside("ping", "-c", "5", "-W", "5", ipTwo)).code, 0);
  // Out to the world, under the host's address.
  assert.equal(await guestRun(first, `nc -w 30 ${wire.outsideIp} 7777 </dev/null`), wire.uplinkIp);
  // Not to each other, in neither direction.
  assert.match(await guestRun(first, reach(ipTwo, 22)), /no$/);
  assert.match(await guestRun(second, reach(ipOne, 22)), /no$/);
  // The isolated one reaches no machine, and is still reached.
  assert.match(await guestRun(third, reach(wire.outsideIp, 7777)), /no$/);
  assert.match(
    await guestRun(third, "ping -c 1 -W 2 10.88.0.1 >/dev/null && echo reached || echo no"),
    /no$/,
  );
  assert.equal((await wire.inside("ping", "-c", "5", "-W", "5", ipAlone)).code, 0);

  // Who takes another's address is not heard.
  assert.match(
    await guestRun(first, "ping -c 1 -W 5 10.88.0.1 >/dev/null && echo reached || echo no"),
    /reached$/,
  );
  const takeOver = `ip addr flush dev eth0; ip addr add ${ipTwo}/24 dev eth0; ping -c 1 -W 2 10.88.0.1 >/dev/null && echo reached || echo no`;
  assert.match(await guestRun(first, takeOver), /no$/);
  const fakeMac = `ip link set eth0 address ${two?.nic.mac}; ip addr flush dev eth0; ip addr add ${ipOne}/24 dev eth0; ping -c 1 -W 2 10.88.0.1 >/dev/null && echo reached || echo no`;
  assert.match(await guestRun(first, fakeMac), /no$/);
  await network.tearDown(options);
});

test("a guest that wakes with its source's MAC gets its own by the agent, and a lease with it", async () => {
  await using wire = await openTestNetwork();
  await using directory = await temporaryDirectory();
  const network = await openBridgeNetwork({ directory: directory.path, netns: wire.netns }, options);
  const [plan] = await network.prepare({ vmId: "CLONE11111", vmName: "clone", cpus: 1, spec: {} }, options);
  assert.ok(plan?.refreshMac);
  await using guest = await boot(wire, plan, "02:00:00:00:00:99");
  await using agent = await guest.openAgent();
  assert.equal(await network.address("CLONE11111", options), undefined);
  const identity = {
    t: "identity",
    epoch: "e1",
    hostname: "clone",
    machineId: "",
    instanceId: "",
    wallClockMs: 0,
    entropy: "",
    nics: [`${plan.guest.mac} dhcp - -`],
  } as const;
  await agent.request(identity, options);
  const ip = await eventually(
    async () => (await network.address("CLONE11111", options))?.ip ?? assert.fail("no lease"),
    {
      timeoutMs: 60_000,
    },
  );
  await eventually(async () => {
    const shown = await runIn(agent, { argv: ["ip", "addr", "show", "eth0"] }, signal);
    assert.match(shown.stdout, new RegExp(`link/ether ${plan.guest.mac}[^]*inet ${ip}/24`));
  });
  await network.tearDown(options);
});

test("what is made is found again, what is released is gone, and removing leaves nothing", async () => {
  await using wire = await openTestNetwork();
  await using directory = await temporaryDirectory();
  const leasesPath = join(directory.path, "leases.json");
  const settings = { directory: join(directory.path, "book"), netns: wire.netns, leasesPath };
  const request = (vmId: string, nics = 1) => ({ vmId, vmName: vmId, cpus: 1, spec: { nics } });
  const taps = async () =>
    [...(await wire.inside("ip", "-o", "link")).stdout.matchAll(/ (bt[^:@]+):/g)]
      .map((match) => match[1] ?? "")
      .sort();
  const network = await openBridgeNetwork(settings, options);
  const before = await network.prepare(request("VMONE11111", 2), options);
  await network.prepare(request("VMTWO11111"), options);
  assert.deepEqual(await taps(), ["btVMONE111-0", "btVMONE111-1", "btVMTWO111-0"]);
  const again = await openBridgeNetwork(settings, options);
  assert.deepEqual(await again.prepare(request("VMONE11111", 2), options), before);
  const published = JSON.parse(await readFile(leasesPath, "utf8")) as { mac: string }[];
  assert.equal(published.length, 3);
  await assert.rejects(
    again.addForward(),
    (error) => error instanceof Fault && error.code === "notSupported",
  );

  // A tap that a crash left behind has no owner.
  await wire.inside("ip", "tuntap", "add", "dev", "btLOST0000-0", "mode", "tap");
  await wire.inside("ip", "link", "set", "btLOST0000-0", "master", "cni0");
  await again.reconcile(async () => new Set(["VMTWO11111"]), options);
  assert.deepEqual(await taps(), ["btVMTWO111-0"]);
  await again.release("VMTWO11111", options);
  await again.release("VMTWO11111", options);
  assert.deepEqual(await taps(), []);
  assert.equal(await readFile(leasesPath, "utf8"), "null\n");

  await again.tearDown(options);
  assert.equal((await wire.inside("nft", "list", "tables")).stdout, "");
  assert.notEqual((await wire.inside("ip", "link", "show", "cni0")).code, 0);
  assert.equal((await runCommand("ip", ["netns", "pids", wire.netns])).stdout, "", "no dnsmasq is left");
});

test("an address is used again although its former lease still runs", async () => {
  await using wire = await openTestNetwork();
  await using directory = await temporaryDirectory();
  const network = await openBridgeNetwork(
    { directory: directory.path, netns: wire.netns, subnet: "10.99.0.0/30" }, // one address beside the gateway
    options,
  );
  const request = (vmId: string) => ({ vmId, vmName: vmId, cpus: 1, spec: {} });
  for (const vmId of ["FIRST11111", "SECOND1111"]) {
    const [plan] = await network.prepare(request(vmId), options);
    await using guest = await boot(wire, plan);
    const address = await eventually(
      async () => (await network.address(vmId, options)) ?? assert.fail("no lease"),
      {
        timeoutMs: 180_000,
      },
    );
    assert.equal(address.ip, "10.99.0.2");
    await eventually(async () =>
      assert.match(await guestRun(guest, "ip -4 addr show eth0"), /10\.99\.0\.2\/30/),
    );
    await assert.rejects(network.prepare(request("TOOMANY111"), options), /no free address/);
    await network.release(vmId, options);
  }
  await network.tearDown(options);
});
