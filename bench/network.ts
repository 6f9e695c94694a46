/**
 * What the CNI network costs against taps on the same bridge: throughput and latency from guest to guest, and the time that
 * it adds to a clone. Runs in network and mount namespaces of its own; needs root. The two kinds alternate.
 *
 *   --rounds N     measurements of each kind (9)
 *   --mib N        bytes of one transfer (1024)
 *   --pings N      echoes of one measurement of latency (50)
 *   --clones N     clones on the CNI network (20)
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openCniNetwork, openQemuRuntime } from "@cocoon/qemu";
import { temporaryDirectory } from "@cocoon/testkit";
import type { Vm, VmNetwork, VmRuntime } from "@cocoon/vm";
import { openPlainTaps } from "./network/plain-taps.ts";
import { computePercentiles, computeSpread, printReport } from "./report.ts";
import { imageDirectory, machine, newName, signal } from "./vm/measure.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "9" },
    mib: { type: "string", default: "1024" },
    pings: { type: "string", default: "50" },
    clones: { type: "string", default: "20" },
    inside: { type: "boolean", default: false },
  },
});
const [rounds, mib, pings, clones] = [values.rounds, values.mib, values.pings, values.clones].map(Number) as [
  number,
  number,
  number,
  number,
];
const bridge = "cni0";
const prefix = "10.76.0";
const say = (line: string) => console.error(line);

/** The same command in namespaces of its own, which end with everything in them. */
async function enterNamespaces(): Promise<number> {
  const script = 'mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up && exec "$0" "$@"';
  const again = [process.execPath, import.meta.filename, ...process.argv.slice(2), "--inside"];
  const child = spawn("unshare", ["--net", "--mount", "sh", "-c", script, ...again], { stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

/** A bridge with addresses and nothing else: what is compared is the way into the guest. */
async function writeList(directory: string): Promise<string> {
  const confDirectory = join(directory, "net.d");
  await mkdir(confDirectory);
  const ipam = {
    type: "host-local",
    dataDir: join(directory, "ipam"),
    ranges: [[{ subnet: `${prefix}.0/24`, rangeEnd: `${prefix}.199` }]],
  };
  const plugin = {
    type: "bridge",
    bridge,
    isGateway: true,
    ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0" }] },
  };
  await writeFile(
    join(confDirectory, "10-bench.conflist"),
    JSON.stringify({ cniVersion: "1.0.0", name: "bench", plugins: [plugin] }),
  );
  return confDirectory;
}

interface Bench {
  readonly runtime: VmRuntime;
  /** How long each machine took to be attached. */
  readonly attachMs: number[];
}

async function open(directory: string): Promise<Bench> {
  const attachMs: number[] = [];
  const options = { directory: join(directory, "net"), confDirectory: await writeList(directory) };
  const cni = await openCniNetwork(options);
  const timed: VmNetwork = {
    kind: cni.kind,
    addForward: (...args) => cni.addForward(...args),
    release: (...args) => cni.release(...args),
    reconcile: (...args) => cni.reconcile(...args),
    address: (...args) => cni.address(...args),
    prepare: async (...args) => {
      const began = performance.now();
      const plans = await cni.prepare(...args);
      attachMs.push(performance.now() - began);
      return plans;
    },
  };
  const images = openImageLibrary({ directory: imageDirectory() });
  const runtime = await openQemuRuntime({
    rootDirectory: join(directory, "root"),
    images,
    networks: new Map([
      ["cni", timed],
      ["plain", openPlainTaps(bridge, prefix)],
    ]),
    path: process.env["PATH"] ?? "",
    signal,
  });
  return { runtime, attachMs };
}

async function sh(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  const out = await text(program.stdout);
  const { code } = await program.exited;
  if (code !== 0) throw new Error(`${vm.name}: ${script} ended with ${code}: ${out}`);
  return out;
}

interface Pair {
  readonly from: Vm;
  readonly to: Vm;
  readonly ip: string;
}

async function startPair(runtime: VmRuntime, network: string): Promise<Pair> {
  const run = async () => {
    const vm = await runtime.run({ ...machine(128), name: newName(network), network }, { signal });
    await runtime.waitReady(vm.id, { signal });
    return vm;
  };
  const [from, to] = [await run(), await run()];
  return { from, to, ip: to.nics[0]?.address?.ip ?? "" };
}

/** In MiB/s, as the sender sees it until the receiver has closed. */
async function measureThroughput(runtime: VmRuntime, { from, to, ip }: Pair): Promise<number> {
  await sh(runtime, to, "(nc -l -p 5001 >/dev/null </dev/null &) ; sleep 1");
  const began = performance.now();
  await sh(runtime, from, `dd if=/dev/zero bs=65536 count=${mib * 16} 2>/dev/null | nc ${ip} 5001`);
  return mib / ((performance.now() - began) / 1000);
}

/** Average round trip in ms, by the guest's own clock. */
async function measureLatency(runtime: VmRuntime, { from, ip }: Pair): Promise<number> {
  const out = await sh(runtime, from, `ping -c ${pings} -i 0.1 ${ip} || ping -c ${pings} ${ip}`);
  return Number(/= [\d.]+\/([\d.]+)\//.exec(out)?.[1] ?? Number.NaN);
}

async function measureClones({ runtime, attachMs }: Bench, source: Vm): Promise<number[]> {
  const { snapshot } = await runtime.snapshots.save(source.id, { signal });
  attachMs.length = 0;
  for (let each = 0; each < clones; each += 1) {
    const vm = await runtime.clone(
      { name: newName("clone"), snapshot: snapshot.id, network: "cni" },
      { signal },
    );
    await runtime.remove(vm.id, { force: true, signal });
  }
  return attachMs;
}

async function measureAll(directory: string): Promise<void> {
  const bench = await open(directory);
  await using runtime = bench.runtime;
  const kinds = ["cni", "plain"] as const;
  const pairs = { cni: await startPair(runtime, "cni"), plain: await startPair(runtime, "plain") };
  say("guests are ready");
  const throughput = { cni: [] as number[], plain: [] as number[] };
  const latency = { cni: [] as number[], plain: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      throughput[kind].push(await measureThroughput(runtime, pairs[kind]));
      latency[kind].push(await measureLatency(runtime, pairs[kind]));
    }
    say(`round ${round + 1} of ${rounds}: ${JSON.stringify({ throughput, latency })}`);
  }
  const attach = await measureClones(bench, pairs.cni.from);
  for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  const ratio = (of: { readonly cni: number[]; readonly plain: number[] }) =>
    computeSpread(of.cni).median / computeSpread(of.plain).median;
  printReport({
    bench: "network",
    figures: {
      throughputMibPerSecond: { cni: computeSpread(throughput.cni), plain: computeSpread(throughput.plain) },
      latencyMs: { cni: computeSpread(latency.cni), plain: computeSpread(latency.plain) },
      attachMs: computePercentiles(attach),
    },
    targets: [
      { name: "guest-to-guest throughput against a plain tap", value: ratio(throughput), want: ">= 0.9" },
      { name: "guest-to-guest latency against a plain tap", value: ratio(latency), want: "<= 1.2" },
      { name: "ms that CNI adds to a clone, p50", value: computePercentiles(attach).p50, want: "<= 60" },
    ],
  });
}

if (values.inside) {
  await using directory = await temporaryDirectory();
  await chmod(directory.path, 0o711);
  await measureAll(directory.path);
} else {
  // What the image is built from is fetched here: nothing can be from inside.
  const images = openImageLibrary({ directory: imageDirectory() });
  await images.pull(demoImageName, { signal });
  await images.resolve(demoImageName, { signal });
  process.exitCode = await enterNamespaces();
}
