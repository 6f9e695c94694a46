/**
 * Our registry against `distribution` v3 (Go), on the same disk, in the same run, driven by the same client program.
 *
 *   npm run bench -- registry [--rounds 5] [--small-count 2000] [--large-count 16] [--tags 100000] [--slow-clients 1500]
 *
 * Each round starts both servers fresh, in alternating order, and does the same four things with each: push and pull of
 * 1 GiB in layers of 64 MiB (4 at a time), push and pull of 2,000 blobs of 64 KiB (8 at a time). A push is POST, then
 * PUT with the body. Large pulls take a third of a second: they are done five times, and the median counts. Ours runs
 * as `epoch serve` does by default: content and names flushed to disk before the answer, repository links, a token on
 * every request. The peer runs without authentication and without an access log. Large transfers are measured over TLS as
 * well, with the same certificate for both servers. At the end, ours alone: pages of a repository with 100,000 tags, and
 * memory while 1,500 clients read or send slowly.
 * Large blobs are removed after each run, so that the next one finds memory to cache its own; small ones at the end of
 * all rounds: for a minute after many files were removed a file system makes new ones slowly, which would hit the
 * system that comes next. Ratios are taken within a round, so that what else happens on the machine hits both; medians are over rounds.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdir, readFile, readdir, rm, stat, statfs, writeFile } from "node:fs/promises";
import { tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildInfo, sleep } from "@cocoon/core";
import { eventually, freePort, runCommand } from "@cocoon/testkit";
import { buildGoProgram } from "../test/peers/go-program.ts";
import { printReport, computeSpread } from "./report.ts";
import { connectOnce, makeCertificate, measureAbuse } from "./registry-abuse.ts";
import { released } from "./support/released.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    "small-count": { type: "string", default: "2000" },
    "large-count": { type: "string", default: "16" },
    tags: { type: "string", default: "100000" },
    "slow-clients": { type: "string", default: "1500" },
    dir: { type: "string", default: tmpdir() },
  },
});
const rounds = Number(values.rounds);
const large = { count: values["large-count"], size: 64 * 2 ** 20, parallel: 4 };
const small = { count: values["small-count"], size: 64 * 2 ** 10, parallel: 8 };
const loads = [
  { name: "pushLarge", mode: "push", ...large, times: 1, tls: false },
  { name: "pullLarge", mode: "pull", ...large, times: 5, tls: false },
  { name: "pushSmall", mode: "push", ...small, times: 1, tls: false },
  { name: "pullSmall", mode: "pull", ...small, times: 1, tls: false },
  { name: "pushLargeTls", mode: "push", ...large, times: 1, tls: true },
  { name: "pullLargeTls", mode: "pull", ...large, times: 3, tls: true },
] as const;
type LoadName = (typeof loads)[number]["name"];
type System = "ours" | "distribution";

interface Result {
  readonly mibPerSecond: number;
  readonly cpuSeconds: number;
}
interface Run {
  readonly results: Readonly<Record<LoadName, Result>>;
  readonly residentMiB: number;
}

interface Server extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly pid: number;
}

const peers = join(import.meta.dirname, "peers", "distribution");
const signal = new AbortController().signal;

const programs = {
  distribution: await buildGoProgram({
    name: "distribution",
    directory: peers,
    package: "github.com/distribution/distribution/v3/cmd/registry",
  }),
  load: await buildGoProgram({
    name: "load",
    directory: peers,
    package: "./load",
    sources: ["load/main.go"],
  }),
};

interface Listen {
  readonly port: number;
  readonly tls: boolean;
}

const certificate = await makeCertificate(join(values.dir, `bench-registry-${process.pid}-tls`));

async function startOurs(directory: string, { port, tls }: Listen, more: string[] = []): Promise<Server> {
  const main = await released("epoch", "packages/registry/src/main.ts");
  const files = ["--tls-cert-file", certificate.cert, "--tls-key-file", certificate.key];
  const address = ["--addr", `127.0.0.1:${port}`, "--health-addr", ""];
  const args = [main, "serve", ...address, "--root", directory, ...(tls ? files : []), ...more];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  const token = await eventually(
    async () => (await readFile(join(directory, "admin-token"), "utf8")).trim(),
    {
      timeoutMs: 60_000,
    },
  );
  return toServer(child, { url: `${tls ? "https" : "http"}://127.0.0.1:${port}`, token });
}

async function startDistribution(directory: string, { port, tls }: Listen): Promise<Server> {
  const config = join(directory, "config.yml");
  await writeFile(
    config,
    [
      "version: 0.1",
      "log: {level: error, accesslog: {disabled: true}}",
      `storage: {filesystem: {rootdirectory: ${join(directory, "data")}}}`,
      `http: {addr: "127.0.0.1:${port}"${tls ? `, tls: {certificate: ${certificate.cert}, key: ${certificate.key}}` : ""}}`,
    ].join("\n"),
  );
  const child = spawn(programs.distribution, ["serve", config], { stdio: ["ignore", "ignore", "ignore"] });
  await eventually(() => connectOnce(port), { timeoutMs: 60_000 });
  return toServer(child, { url: `${tls ? "https" : "http"}://127.0.0.1:${port}`, token: "" });
}

function toServer(child: ChildProcess, { url, token }: { url: string; token: string }): Server {
  return {
    url,
    token,
    pid: child.pid ?? 0,
    [Symbol.asyncDispose]: async () => {
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      await gone;
    },
  };
}

/** User and system time of a process so far. */
async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function peakResidentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "latin1");
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

const stored = join(values.dir, `bench-registry-${process.pid}`);
process.on("exit", () => rmSync(stored, { recursive: true, force: true }));
for (const interruption of ["SIGINT", "SIGTERM"] as const) process.on(interruption, () => process.exit(130));

async function runOnce(system: System, round: number): Promise<Run> {
  const results: Partial<Record<LoadName, Result>> = {};
  let residentMiB = 0;
  for (const tls of [false, true]) {
    const directory = join(stored, `${round}-${system}-${tls ? "tls" : "plain"}`);
    await mkdir(directory, { recursive: true });
    await runCommand("sync", []); // what one system left to write must not slow the other
    await sleep(500, { signal });
    const port = await freePort();
    await using stack = new AsyncDisposableStack();
    stack.defer(() => removeLarge(directory));
    const start = system === "ours" ? startOurs : startDistribution;
    const server = stack.use(await start(directory, { port, tls }));
    for (const load of loads.filter((each) => each.tls === tls))
      results[load.name] = await measureMedian(server, load, round);
    if (!tls) residentMiB = await peakResidentMiB(server.pid);
  }
  return { results: results as Record<LoadName, Result>, residentMiB };
}

async function removeLarge(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && (await stat(path)).size > 2 ** 20) await rm(path);
  }
}

async function measureMedian(server: Server, load: (typeof loads)[number], round: number): Promise<Result> {
  const results: Result[] = [];
  for (let time = 0; time < load.times; time += 1) results.push(await runLoad(server, load, round));
  return {
    mibPerSecond: median(results.map(({ mibPerSecond }) => mibPerSecond)),
    cpuSeconds: median(results.map(({ cpuSeconds }) => cpuSeconds)),
  };
}

async function runLoad(server: Server, load: (typeof loads)[number], round: number): Promise<Result> {
  const before = await cpuSeconds(server.pid);
  const args = ["-url", server.url, "-mode", load.mode, "-count", load.count, "-size", String(load.size)];
  const rest = [
    "-parallel",
    String(load.parallel),
    "-seed",
    String(round + 1),
    "-repository",
    `bench/of-${load.size}`,
  ];
  const result = await runCommand(programs.load, [...args, ...rest], {
    env: { LOAD_TOKEN: server.token },
    timeoutMs: 600_000,
  });
  if (result.code !== 0) throw new Error(`load failed: ${result.stderr}`);
  const { mibPerSecond } = JSON.parse(result.stdout) as { mibPerSecond: number };
  return { mibPerSecond, cpuSeconds: (await cpuSeconds(server.pid)) - before };
}

const median = (measured: readonly number[]) => computeSpread(measured).median;

const runs: Record<System, Run[]> = { ours: [], distribution: [] };
for (let round = 0; round < rounds; round += 1)
  for (const system of round % 2 === 0
    ? (["ours", "distribution"] as const)
    : (["distribution", "ours"] as const)) {
    const run = await runOnce(system, round);
    runs[system].push(run);
    const line = loads.map(
      ({ name }) =>
        `${name} ${run.results[name].mibPerSecond.toFixed(0)} MiB/s (${run.results[name].cpuSeconds.toFixed(1)} s CPU)`,
    );
    console.log(
      `round ${round + 1} ${system.padEnd(12)} ${line.join(", ")}, ${run.residentMiB.toFixed(0)} MiB resident`,
    );
  }

const abuseDirectory = join(stored, "abuse");
await mkdir(abuseDirectory, { recursive: true });
const abuse = await measureAbuse({
  start: async () =>
    startOurs(abuseDirectory, { port: await freePort(), tls: false }, [
      "--max-connections-per-address",
      "4096",
    ]),
  tags: Number(values.tags),
  clients: Number(values["slow-clients"]),
});
console.log(
  `abuse: page ${abuse.pageMs.median.toFixed(1)} ms, slow clients ${abuse.slowClientsMiB.toFixed(0)} MiB`,
);

const of = (system: System, name: LoadName, key: keyof Result) =>
  runs[system].map((run) => run.results[name][key]);
const ratios = (name: LoadName) => {
  const peer = of("distribution", name, "mibPerSecond");
  return of("ours", name, "mibPerSecond").map((value, index) => value / (peer[index] ?? Number.NaN));
};
const resident = (system: System) => runs[system].map((run) => run.residentMiB);
const figures = {
  ...Object.fromEntries(
    loads.map(({ name }) => [
      name,
      {
        ratio: computeSpread(ratios(name)),
        oursMiBPerSecond: computeSpread(of("ours", name, "mibPerSecond")),
        distributionMiBPerSecond: computeSpread(of("distribution", name, "mibPerSecond")),
        oursCpuSeconds: computeSpread(of("ours", name, "cpuSeconds")),
        distributionCpuSeconds: computeSpread(of("distribution", name, "cpuSeconds")),
      },
    ]),
  ),
  abuse,
  residentMiB: {
    ours: computeSpread(resident("ours")),
    distribution: computeSpread(resident("distribution")),
  },
};
const memoryRatio = median(resident("ours")) / median(resident("distribution"));
const { bsize, type } = await statfs(values.dir);
printReport({
  bench: "registry",
  env: {
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    filesystem: { type: `0x${type.toString(16)}`, blockBytes: bsize },
    revision: buildInfo().revision,
    rounds,
  },
  figures,
  targets: [
    { name: "push 64 MiB layers, times distribution", value: median(ratios("pushLarge")), want: ">= 1.1" },
    {
      name: "push 64 MiB layers over TLS, times distribution",
      value: median(ratios("pushLargeTls")),
      want: ">= 1",
    },
    { name: "pull 64 MiB layers, times distribution", value: median(ratios("pullLarge")), want: ">= 1.3" },
    { name: "push 64 KiB blobs, times distribution", value: median(ratios("pushSmall")), want: ">= 2" },
    { name: "pull 64 KiB blobs, times distribution", value: median(ratios("pullSmall")), want: ">= 2" },
    { name: "resident memory, times distribution", value: memoryRatio, want: "<= 2" },
    { name: "page of 100 of many tags, ms", value: abuse.pageMs.median, want: "<= 20" },
    { name: "resident with slow clients, MiB", value: abuse.slowClientsMiB, want: "<= 400" },
  ],
});
