import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "@cocoon/core";
import { count, temporaryDirectory, testSeed } from "@cocoon/testkit";
import type { NetworkRequest, NetworkSpec } from "@cocoon/vm";
import { openUserNetwork } from "./user-network.ts";

function request(vmId: string, spec: NetworkSpec = {}): NetworkRequest {
  return { vmId, vmName: vmId.toLowerCase(), cpus: 1, spec };
}

test("a VM gets an address of its own and forwards at the guest's port numbers", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path, firstFreePort: 1 });
  const [plan] = await network.prepare(request("A", { ports: [{ protocol: "udp", guestPort: 5353 }] }), t);
  const address = await network.address("A", t);
  assert.match(address?.ip ?? "", /^127\.88\.\d+\.\d+$/);
  assert.equal(address?.routable, false);
  assert.equal(
    plan?.netdev,
    `user,net=10.0.2.0/24,host=10.0.2.2,dns=10.0.2.3,dhcpstart=10.0.2.15,ipv6=off,restrict=off,hostfwd=tcp:${address?.ip}:22-:22,hostfwd=udp:${address?.ip}:5353-:5353`,
  );
  assert.equal(plan?.nic.address, undefined, "seen from outside the address is not a fixed one");
  assert.deepEqual(plan?.guest.address, { ip: "10.0.2.15", prefix: 24, gateway: "10.0.2.2" });
  assert.equal(plan?.refreshMac, false);
});

test("without privilege low ports move up, recorded, and never onto each other", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path, firstFreePort: 1024 });
  const ports = [80, 20_022, 8080].map((guestPort) => ({ protocol: "tcp", guestPort }) as const);
  await network.prepare(request("A", { ports }), t);
  const forwards = (await network.address("A", t))?.forwards ?? [];
  assert.deepEqual(
    forwards.map(({ guestPort, hostPort }) => [guestPort, hostPort]),
    [
      [22, 20_022],
      [80, 20_080],
      [20_022, 40_022],
      [8080, 8080],
    ],
  );
});

test("an isolated VM is cut off; a second interface has a network of its own", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path });
  const plans = await network.prepare(request("A", { isolated: true, nics: 2 }), t);
  assert.equal(plans.length, 2);
  for (const { netdev } of plans) assert.match(netdev, /,restrict=on/);
  assert.doesNotMatch(plans[1]?.netdev ?? "", /hostfwd/);
  assert.equal(plans[1]?.guest.address?.ip, "10.0.3.15");
  assert.deepEqual(await network.prepare(request("B", { nics: 0 }), t), []);
});

test("the same VM gets the same answer until it is released, also from another process", async (t) => {
  await using directory = await temporaryDirectory();
  const open = () => openUserNetwork({ directory: directory.path });
  const network = await open();
  const first = await network.prepare(request("A"), t);
  assert.deepEqual(await network.prepare(request("A", { isolated: true }), t), first);
  assert.deepEqual(await (await open()).prepare(request("A"), t), first);
  await network.release("A", t);
  await network.release("A", t);
  assert.equal(await network.address("A", t), undefined);
  assert.notDeepEqual(await network.prepare(request("A"), t), first);
});

test("a forward can be added later, once", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path });
  await network.prepare(request("A"), t);
  const port = { protocol: "tcp", guestPort: 9000 } as const;
  const added = await network.addForward("A", port, t);
  assert.deepEqual(await network.addForward("A", port, t), added);
  const [plan] = await network.prepare(request("A"), t);
  assert.match(plan?.netdev ?? "", /hostfwd=tcp:127\.88\.\d+\.\d+:9000-:9000/);
  await assert.rejects(
    network.addForward("B", port, t),
    (error) => error instanceof Fault && error.code === "notFound",
  );
  await assert.rejects(
    network.addForward("A", { protocol: "tcp", guestPort: 70_000 }, t),
    /70000 is no port/,
  );
});

test("an address that another process listens on is passed over", async (t) => {
  await using directory = await temporaryDirectory();
  const open = () =>
    openUserNetwork({ directory: directory.path, subnet: "127.89.0.0/24", firstFreePort: 1024 });
  await (await open()).prepare(request("A"), t);
  const taken = (await (await open()).address("A", t))?.ip ?? "";
  const next = taken.replace(/\d+$/, (last) => String((Number(last) % 254) + 1));
  const server = createServer().listen(20_022, next);
  await once(server, "listening");
  t.after(() => server.close());
  await (await open()).prepare(request("B"), t);
  const other = (await (await open()).address("B", t))?.ip;
  assert.ok(other !== next && other !== taken, `${other} although ${next} is taken`);
});

test("a pool that is used up says so, and one release makes room", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path, subnet: "127.90.0.0/29" });
  for (const vmId of ["A", "B", "C", "D", "E", "F"]) await network.prepare(request(vmId), t);
  await assert.rejects(network.prepare(request("G"), t), /no free address: all 6/);
  await network.release("C", t);
  await network.prepare(request("G"), t);
});

test("reconcile releases what belongs to no VM", async (t) => {
  await using directory = await temporaryDirectory();
  const leasesPath = join(directory.path, "leases.json");
  const network = await openUserNetwork({ directory: join(directory.path, "user"), leasesPath });
  for (const vmId of ["A", "B", "C"]) await network.prepare(request(vmId), t);
  await network.reconcile(async () => new Set(["B"]), t);
  assert.equal(await network.address("A", t), undefined);
  const ip = (await network.address("B", t))?.ip;
  const published = JSON.parse(await readFile(leasesPath, "utf8")) as { ip: string }[];
  assert.deepEqual(
    published.map((row) => row.ip),
    [ip],
  );
});

test("a damaged record is an error that names the file, not a free address", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: directory.path });
  await network.prepare(request("A"), t);
  const [file = ""] = (await readdir(directory.path)).filter((name) => name.endsWith(".json"));
  await writeFile(join(directory.path, file), "{");
  await assert.rejects(network.prepare(request("B"), t), new RegExp(`${file} is damaged`));
});

test("addresses outside of loopback are refused", async () => {
  await assert.rejects(openUserNetwork({ directory: "/nowhere", subnet: "10.0.0.0/24" }), /loopback/);
});

test("no two VMs ever share an address, whatever happens in which order", async (t) => {
  const step = fc.record({
    what: fc.constantFrom("prepare", "release", "reconcile"),
    vm: fc.integer({ min: 0, max: 7 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      await using directory = await temporaryDirectory();
      const opened = await Promise.all(
        [1, 2].map(() => openUserNetwork({ directory: directory.path, subnet: "127.91.0.0/28" })),
      );
      const alive = new Set<string>();
      await Promise.all(
        steps.map(async ({ what, vm }, index) => {
          const network = opened[index % 2] ?? assert.fail();
          if (what === "prepare") await network.prepare(request(`VM${vm}`), t);
          else if (what === "release") await network.release(`VM${vm}`, t);
          else await network.reconcile(async () => new Set(["VM0", "VM1"]), t);
        }),
      );
      const addresses: string[] = [];
      for (let vm = 0; vm < 8; vm += 1) {
        const address = await opened[0]?.address(`VM${vm}`, t);
        if (address) addresses.push(address.ip);
        if (address) alive.add(`VM${vm}`);
      }
      assert.equal(new Set(addresses).size, addresses.length);
    }),
    { numRuns: count({ small: 15, full: 200 }), seed: testSeed() },
  );
});
