/**
 * Hibernating and waking a machine through a registry: bytes over the wire and seconds.
 *
 *   npm run bench -- snapshot [--mib 512] [--rounds 3]
 *
 * The registry is ours, on the file system, in a process of its own, with tokens on. "One blob" is what peers do: the
 * whole memory as one layer (version 1).
 */
import { fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { constants, zstdCompressSync } from "node:zlib";
import {
  computeDigest,
  listSourceFiles,
  fixedCredential,
  openRegistry,
  openSnapshotClient,
  type PullReport,
  type PushReport,
  type Registry,
  type SnapshotClient,
  type SnapshotFormat,
} from "@cocoon/oci";
import { startRegistry } from "@cocoon/registry";
import {
  pageBytes,
  rewritePages,
  rewriteRuns,
  somePages,
  writeGuestMemory,
  type GuestMemory,
} from "./support/guest-memory.ts";

const { values } = parseArgs({
  options: {
    mib: { type: "string", default: "512" },
    rounds: { type: "string", default: "3" },
    serve: { type: "string" },
  },
});

/** The registry's own process: tells its address and a token, ends with its parent. */
async function serve(root: string): Promise<void> {
  const server = await startRegistry({ storage: { kind: "filesystem", root } });
  const password = await server.createToken({ name: "bench", scopes: ["repository:**:pull,push,delete"] });
  process.send?.({ url: server.url, password });
  process.on("disconnect", () => process.exit(0));
  process.on("message", () => process.send?.(process.cpuUsage()));
}

interface Lab extends AsyncDisposable {
  readonly path: string;
  readonly registry: Registry;
  /** CPU seconds used by the registry so far. */
  serverCpu(): Promise<number>;
  /** A node with an empty chunk store. */
  node(threads?: number): Promise<SnapshotClient>;
}

async function openLab(path: string): Promise<Lab> {
  const stack = new AsyncDisposableStack();
  await mkdir(path, { recursive: true });
  const child = fork(import.meta.filename, ["--serve", join(path, "registry")]);
  stack.defer(() => {
    child.disconnect();
  });
  const [{ url, password }] = (await once(child, "message")) as [{ url: string; password: string }];
  const credentials = fixedCredential({ kind: "basic", username: "bench", password });
  const registry = stack.use(openRegistry({ address: url, credentials }));
  let nodes = 0;
  return {
    path,
    registry,
    serverCpu: async () => {
      child.send("cpu");
      const [{ user, system }] = (await once(child, "message")) as [NodeJS.CpuUsage];
      return (user + system) / 1e6;
    },
    node: async (threads = availableParallelism()) => {
      nodes += 1;
      const store = { directory: join(path, `node-${nodes}`), limitBytes: 8 * 1024 ** 3 };
      return stack.use(await openSnapshotClient({ store, threads }));
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

interface Timed<T> {
  readonly report: T;
  readonly seconds: number;
  /** CPU seconds of client and registry per second. */
  readonly cores: number;
}

async function timed<T>(lab: Lab, work: () => Promise<T>): Promise<Timed<T>> {
  const [cpu, server, started] = [process.cpuUsage(), await lab.serverCpu(), performance.now()];
  const report = await work();
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const cores = ((user + system) / 1e6 + (await lab.serverCpu()) - server) / seconds;
  return { report, seconds, cores };
}

const signal = new AbortController().signal;
const envelope = { config: { id: "BENCH", name: "bench", memory: 0 }, version: 1 };

interface PushSpec {
  readonly client: SnapshotClient;
  readonly directory: string;
  readonly repository: string;
  readonly format: SnapshotFormat;
  /** Repository whose tag is a base. */
  readonly base?: string;
}

async function push(lab: Lab, spec: PushSpec): Promise<Timed<PushReport>> {
  const source = { envelope, files: await listSourceFiles(spec.directory) };
  const base = spec.base ? [{ repository: lab.registry.repository(spec.base), reference: "hibernate" }] : [];
  const repository = lab.registry.repository(spec.repository);
  return timed(lab, () =>
    spec.client.push({ source, repository, tag: "hibernate", format: spec.format, base, signal }),
  );
}

async function pull(
  lab: Lab,
  spec: { readonly client: SnapshotClient; readonly repository: string; readonly similar?: string },
): Promise<Timed<PullReport>> {
  const directory = join(lab.path, `pulled-${performance.now()}`);
  const repository = lab.registry.repository(spec.repository);
  const similar = spec.similar ? [spec.similar] : [];
  const result = await timed(lab, () =>
    spec.client.pull({ repository, reference: "hibernate", directory, similar, signal }),
  );
  const [back, original] = [join(directory, "memory"), join(lab.path, spec.repository, "memory")];
  if (computeDigest(await readFile(back)) !== computeDigest(await readFile(original)))
    throw new Error(`${spec.repository} came back different`);
  await rm(directory, { recursive: true });
  return result;
}

/** A copy of the first machine in a directory of its own. */
async function copyMachine(lab: Lab, name: string): Promise<string> {
  const directory = join(lab.path, name);
  await mkdir(directory);
  for (const file of ["memory", "device-state"])
    spawnSync("cp", ["--sparse=always", join(lab.path, "vm", file), join(directory, file)]);
  return join(directory, "memory");
}

type Figures = Record<string, number>;

interface Machine {
  readonly bytes: number;
  readonly memory: GuestMemory;
}

async function makeMachine(lab: Lab, bytes: number): Promise<Machine> {
  await mkdir(join(lab.path, "vm"));
  const memory = writeGuestMemory(join(lab.path, "vm", "memory"), { bytes, seed: 42 });
  await writeFile(join(lab.path, "vm", "device-state"), zstdNoise(106 * 1024));
  return { bytes, memory };
}

function zstdNoise(length: number): Buffer {
  return Buffer.from(Array.from({ length }, (_, index) => (index * 2654435761) >>> 24));
}

async function round(path: string, bytes: number, number: number): Promise<Figures> {
  await using lab = await openLab(path);
  const { memory } = await makeMachine(lab, bytes);
  const figures: Figures = { usedMiB: (memory.usedPages.length * pageBytes) / 2 ** 20 };
  const formats: SnapshotFormat[] = number % 2 === 0 ? ["packed", "v2", "v1"] : ["v1", "v2", "packed"];
  const pages = 256;
  const runs = { count: Math.round((bytes * 0.05) / (pages * pageBytes)), pages };
  const changed = join(lab.path, "contiguous");
  const written = rewriteRuns(await copyMachine(lab, "contiguous"), { bytes, seed: 7 }, runs);
  const changedBytes = compressedBytes(written, pages);
  figures["changedCompressedMiB"] = changedBytes / 2 ** 20;
  for (const format of formats) {
    const client = await lab.node();
    const repository = `first-${format}`;
    const first = await push(lab, { client, directory: join(lab.path, "vm"), repository, format });
    const second = await push(lab, { client, directory: changed, repository, format });
    Object.assign(figures, {
      [`${format}FirstMiB`]: first.report.bytesSent / 2 ** 20,
      [`${format}FirstSeconds`]: first.seconds,
      [`${format}FirstCores`]: first.cores,
      [`${format}SecondMiB`]: second.report.bytesSent / 2 ** 20,
      [`${format}SecondSeconds`]: second.seconds,
      [`${format}SecondPerChanged`]: second.report.bytesSent / changedBytes,
      [`${format}SecondSkipped`]: 1 - second.report.bytesSent / first.report.bytesSent,
    });
  }
  Object.assign(figures, await packedScenes(lab, memory));
  const single = await lab.node(1);
  const alone = await push(lab, {
    client: single,
    directory: join(lab.path, "vm"),
    repository: "one-thread",
    format: "packed",
  });
  figures["packedFirstOneThreadSeconds"] = alone.seconds;
  return figures;
}

/** What a writer who knows exactly what changed would send: each run compressed by itself. */
function compressedBytes(pages: readonly Buffer[], perRun: number): number {
  let total = 0;
  for (let at = 0; at < pages.length; at += perRun)
    total += zstdCompressSync(Buffer.concat(pages.slice(at, at + perRun)), {
      params: { [constants.ZSTD_c_compressionLevel]: 1 },
    }).length;
  return total;
}

async function packedScenes(lab: Lab, memory: GuestMemory): Promise<Figures> {
  const home = await lab.node();
  const format = "packed";
  const vm = await push(lab, { client: home, directory: join(lab.path, "vm"), repository: "vm", format });
  const scene = async (name: string, change: (memoryFile: string) => void): Promise<Figures> => {
    change(await copyMachine(lab, name));
    const directory = join(lab.path, name);
    // The machine's own repository holds what it was before; then it changes and sleeps again.
    await push(lab, { client: home, directory: join(lab.path, "vm"), repository: name, format, base: "vm" });
    const again = await push(lab, { client: home, directory, repository: name, format });
    const used = memory.usedPages.length * pageBytes;
    return {
      [`${name}MiB`]: again.report.bytesSent / 2 ** 20,
      [`${name}Seconds`]: again.seconds,
      [`${name}SkippedOfWire`]: 1 - again.report.bytesSent / vm.report.bytesSent,
      [`${name}SkippedOfUsed`]: 1 - again.report.bytesSent / used,
    };
  };
  const random = somePages(memory.usedPages, 0.05, 11);
  const idle = somePages(memory.usedPages, 0.01, 12);
  const figures: Figures = {
    ...(await scene("pages", (file) => rewritePages(file, random, { seed: 13, touchedPart: 0 }))),
    ...(await scene("idle", (file) => rewritePages(file, idle, { seed: 14, touchedPart: 0.5 }))),
  };
  for (const name of ["clone-a", "clone-b"]) {
    const own = somePages(memory.usedPages, 0.033, name.length + name.charCodeAt(6));
    rewritePages(await copyMachine(lab, name), own, { seed: name.charCodeAt(6), touchedPart: 0.5 });
    const sent = await push(lab, {
      client: home,
      directory: join(lab.path, name),
      repository: name,
      format,
      base: "vm",
    });
    figures[`${name}Shared`] = 1 - sent.report.bytesSent / vm.report.bytesSent;
  }
  const cold = await lab.node();
  const coldPull = await pull(lab, { client: cold, repository: "vm" });
  const warm = await pull(lab, { client: cold, repository: "idle" });
  const beside = await pull(lab, {
    client: await lab.node(),
    repository: "idle",
    similar: join(lab.path, "vm"),
  });
  return {
    ...figures,
    pullColdMiB: coldPull.report.bytesFetched / 2 ** 20,
    pullColdSeconds: coldPull.seconds,
    pullWithBaseMiB: warm.report.bytesFetched / 2 ** 20,
    pullWithBaseSeconds: warm.seconds,
    pullWithBaseSkipped: 1 - warm.report.bytesFetched / coldPull.report.bytesFetched,
    pullWithBaseFilesMiB: beside.report.bytesFetched / 2 ** 20,
    pullWithBaseFilesSeconds: beside.seconds,
  };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? 0)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

async function main(): Promise<void> {
  const bytes = Number(values.mib) * 2 ** 20;
  const rounds: Figures[] = [];
  for (let number = 0; number < Number(values.rounds); number += 1) {
    const path = await mkdtemp(join(tmpdir(), "cocoon-bench-"));
    try {
      rounds.push(await round(join(path, "lab"), bytes, number));
      console.log(
        `round ${number + 1}: ${JSON.stringify(rounds.at(-1), (_key, value: unknown) => (typeof value === "number" ? Number(value.toFixed(3)) : value))}`,
      );
    } finally {
      await rm(path, { recursive: true, force: true });
    }
  }
  report(bytes, rounds);
}

function report(bytes: number, rounds: readonly Figures[]): void {
  const figures: Record<string, { median: number; min: number; max: number }> = {};
  for (const key of Object.keys(rounds[0] ?? {})) {
    const all = rounds.map((each) => each[key] ?? Number.NaN);
    const short = (value: number): number => Number(value.toFixed(3));
    figures[key] = { median: short(median(all)), min: short(Math.min(...all)), max: short(Math.max(...all)) };
  }
  const value = (key: string): number => figures[key]?.median ?? Number.NaN;
  const atLeast = (name: string, key: string, want: number) => ({
    name,
    value: value(key),
    want: `>= ${want}`,
    met: value(key) >= want,
  });
  const targets = [
    atLeast("idle machine's second push: part of the bytes not sent", "idleSkippedOfWire", 0.9),
    atLeast("clone A: part shared with its base", "clone-aShared", 0.6),
    atLeast("clone B: part shared with its base", "clone-bShared", 0.6),
    {
      name: "second push after 5 % changed in runs of 1 MiB: bytes sent per changed byte, compressed",
      value: value("packedSecondPerChanged"),
      want: "<= 1.3",
      met: value("packedSecondPerChanged") <= 1.3,
    },
    atLeast("cores busy during the first push", "packedFirstCores", 1.5),
  ];
  const env = {
    node: process.version,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    load: loadavg().map((each) => Number(each.toFixed(1))),
    mib: bytes / 2 ** 20,
    rounds: rounds.length,
  };
  console.log(JSON.stringify({ bench: "snapshot", env, figures, targets }));
}

if (values.serve !== undefined) await serve(values.serve);
else await main();
