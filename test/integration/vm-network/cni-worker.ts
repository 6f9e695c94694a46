/** Machines on the CNI network of the host that this runs in. Prints what they saw as JSON. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { demoImageName } from "@cocoon/images";
import { openCniNetwork, openQemuRuntime } from "@cocoon/qemu";
import type { RunSpec, Vm, VmRuntime } from "@cocoon/vm";
import { testLibrary } from "../vm-images/boot-guest.ts";

const [root = "", confDirectory = "", scenario = "", ...rest] = process.argv.slice(2);
const signal = AbortSignal.timeout(540_000);
const mebibyte = 1024 * 1024;
const size = { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte };

async function open(): Promise<VmRuntime> {
  await mkdir(root, { recursive: true, mode: 0o711 });
  const network = await openCniNetwork({ directory: join(root, "net", "cni"), confDirectory });
  return openQemuRuntime({
    rootDirectory: root,
    images: testLibrary(),
    networks: new Map([["cni", network]]),
    runAs: { uid: 2_000_100_000, gid: 2_000_100_000, count: 10 },
    path: process.env["PATH"] ?? "",
    bootSilenceMs: 500_000, // a busy host is slow, and none of this is about that
    signal,
  });
}

async function run(runtime: VmRuntime, name: string, more: Partial<RunSpec> = {}): Promise<Vm> {
  const vm = await runtime.run({ name, image: demoImageName, ...size, ...more }, { signal });
  await runtime.waitReady(vm.id, { signal });
  return runtime.inspect(vm.id, { signal });
}

async function sh(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  return (await text(program.stdout)).trim();
}

const reach = (ip: string) => `ping -c 3 -W 3 ${ip} >/dev/null 2>&1 && echo yes || echo no`;
const port = (ip: string, number: number) => `nc -w 5 ${ip} ${number} </dev/null | head -c 4`;

async function twoGuests(): Promise<Record<string, unknown>> {
  await using runtime = await open();
  const dns = { servers: ["10.96.0.10"], searches: ["default.svc.cluster.local", "svc.cluster.local"] };
  const hostPorts = [{ hostPort: 2222, guestPort: 22, protocol: "tcp" as const }];
  const [one, two] = await Promise.all([run(runtime, "one", { dns, hostPorts }), run(runtime, "two")]);
  const ips = [one.nics[0]?.address?.ip ?? "", two.nics[0]?.address?.ip ?? ""];
  const [ipOne = "", ipTwo = ""] = ips;
  const told = {
    ips,
    addresses: [await runtime.address(one.id, { signal }), await runtime.address(two.id, { signal })],
    ping: await sh(runtime, one, reach(ipTwo)),
    pingBack: await sh(runtime, two, reach(ipOne)),
    ssh: await sh(runtime, one, port(ipTwo, 22)),
    guest: await sh(
      runtime,
      one,
      "ip -4 -o addr show eth0; cat /sys/class/net/eth0/mtu /etc/resolv.conf; ip route",
    ),
    hostPort: await sh(runtime, two, port(rest[0] ?? "10.77.0.1", 2222)),
    metadata: await sh(runtime, one, reach("169.254.169.254")),
    // With addresses of the other it is not heard, not even by the host.
    spoofed: await sh(
      runtime,
      one,
      `ip addr add 10.77.0.99/24 dev eth0; ping -I 10.77.0.99 -c 2 -W 2 ${rest[0]} >/dev/null 2>&1 && echo yes || echo no`,
    ),
    macs: [one.nics[0]?.mac, await sh(runtime, one, "cat /sys/class/net/eth0/address")],
  };
  for (const vm of [one, two]) await runtime.remove(vm.id, { force: true, signal });
  return told;
}

/** A fork of a running machine has an address of its own before it counts as ready; the host is started again in between. */
async function wake(): Promise<Record<string, unknown>> {
  await using runtime = await open();
  const source = await run(runtime, "source");
  const ip = source.nics[0]?.address?.ip ?? "";
  // Their input never ends: they do only when the connection does.
  const held = (program: string, file: string) => `(${program} <&3; touch /tmp/${file}) >/dev/null 2>&1 &`;
  await sh(
    runtime,
    source,
    `mkfifo /tmp/silence; exec 3<>/tmp/silence; ${held("nc -l -p 7000", "server-ended")} sleep 1; ${held(`nc ${ip} 7000`, "client-ended")} sleep 1; ls /tmp`,
  );
  const snapshot = (await runtime.snapshots.save(source.id, { name: "state", signal })).snapshot;
  const clone = await runtime.clone({ name: "clone", snapshot: snapshot.id }, { signal });
  await runtime.waitReady(clone.id, { signal });
  const own = (await runtime.inspect(clone.id, { signal })).nics[0]?.address?.ip ?? "";
  const told = {
    ip,
    own,
    guest: await sh(runtime, clone, "ip -4 -o addr show eth0; cat /sys/class/net/eth0/address"),
    mac: (await runtime.inspect(clone.id, { signal })).nics[0]?.mac,
    reaches: await sh(runtime, clone, reach(ip)),
    reached: await sh(runtime, source, reach(own)),
    // One that hangs would for hours.
    ended: await sh(
      runtime,
      clone,
      "cd /tmp; for n in $(seq 50); do [ $(ls | grep -c ended) = 2 ] && break; sleep 0.2; done; ls | grep ended",
    ),
    goesOn: await sh(runtime, source, "ls /tmp | grep ended"),
  };
  for (const vm of [source, clone]) await runtime.remove(vm.id, { force: true, signal });
  await runtime.snapshots.remove(snapshot.id, { signal });
  return told;
}

const scenarios: Record<string, () => Promise<Record<string, unknown>>> = { twoGuests, wake };
process.stdout.write(`${JSON.stringify(await scenarios[scenario]?.())}\n`);
