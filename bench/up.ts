/**
 * What it costs to have the platform: the time that `up` needs in a new state directory (cold) and with its data (warm) until
 * the control plane, all parts and the demo machines are ready; what the parts use while nothing happens; how quickly the
 * command line starts; how long the demo set takes to hibernate, the first and the second time.
 *
 *   --rounds N    warm starts (3)
 *   --settle N    seconds of rest before the parts are watched (20)
 *   --seconds N   how long they are watched (30)
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { temporaryDirectory } from "@cocoon/testkit";
import { printReport, computeSpread, type Spread } from "./report.ts";
import { releasedCocoonctl } from "./support/released.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    settle: { type: "string", default: "20" },
    seconds: { type: "string", default: "30" },
  },
});
const say = (text: string) => console.error(text);
const root = join(import.meta.dirname, "..");
await using directory = await temporaryDirectory();
/** As `npm run up` runs it. */
const cocoonctl = await releasedCocoonctl(join(directory.path, "programs"));
const controlPlane = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

interface UpTimes {
  readonly controlPlane: number;
  readonly parts: number;
  readonly demo: number;
}

interface Line {
  readonly text: string;
  readonly seconds: number;
}

/** Runs one command of cocoonctl to its end; its lines carry the time at which they came. */
async function run(home: string, ...args: string[]): Promise<{ lines: readonly Line[]; seconds: number }> {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const child = spawn(process.execPath, [cocoonctl, ...args], {
    cwd: root,
    env: { ...process.env, COCOON_HOME: home },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: Line[] = [];
  createInterface({ input: child.stdout }).on("line", (text) => lines.push({ text, seconds: seconds() }));
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) throw new Error(`cocoonctl ${args.join(" ")} ended with ${code}: ${lines.at(-1)?.text}`);
  return { lines, seconds: seconds() };
}

/** When `up` reported each component as ready, or as running already. */
async function timeUp(home: string): Promise<UpTimes> {
  const { lines, seconds } = await run(home, "up");
  const ready = new Map<string, number>();
  for (const line of lines) {
    const name = /([\w-]+): .*\((?:ready after|already running)/.exec(line.text)?.[1];
    if (name !== undefined) ready.set(name, line.seconds);
  }
  const missing = controlPlane.filter((name) => !ready.has(name));
  if (missing.length > 0) throw new Error(`up said nothing of ${missing.join(", ")}`);
  return {
    controlPlane: Math.max(...controlPlane.map((name) => ready.get(name) ?? 0)),
    parts: Math.max(...ready.values()),
    demo: seconds,
  };
}

interface Part {
  readonly name: string;
  readonly pid: number;
  readonly residentBytes: number;
}

async function parts(home: string): Promise<Part[]> {
  const { lines } = await run(home, "status", "-o", "json");
  return JSON.parse(lines.map((line) => line.text).join("\n")) as Part[];
}

const ticksPerSecond = 100;

function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

interface Idle {
  readonly cpuPercent: number;
  readonly residentMB: number;
}

async function watchIdle(home: string): Promise<Record<string, Idle>> {
  const before = (await parts(home)).map((part) => ({
    ...part,
    cpu: cpuSeconds(part.pid),
    at: performance.now(),
  }));
  await pause(Number(values.seconds) * 1000);
  const used = before.map((part) => ({
    name: part.name,
    cpuPercent: (100 * (cpuSeconds(part.pid) - part.cpu) * 1000) / (performance.now() - part.at),
  }));
  const after = new Map((await parts(home)).map((part) => [part.name, part.residentBytes]));
  return Object.fromEntries(
    used.map(({ name, cpuPercent }) => [
      name,
      { cpuPercent: round(cpuPercent), residentMB: Math.round((after.get(name) ?? 0) / 1e6) },
    ]),
  );
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function spread(times: readonly UpTimes[], key: keyof UpTimes): Spread {
  const { median, low, high } = computeSpread(times.map((each) => each[key]));
  return { median: round(median), low: round(low), high: round(high) };
}

async function cliStartMs(home: string): Promise<Spread> {
  const starts: number[] = [];
  for (let start = 0; start < 10; start += 1) starts.push((await run(home, "version")).seconds * 1000);
  const { median, low, high } = computeSpread(starts);
  return { median: Math.round(median), low: Math.round(low), high: Math.round(high) };
}

const home = join(directory.path, "home");
await using _stop = { [Symbol.asyncDispose]: async () => void (await run(home, "down", "--wipe")) };

say("cold: a new state directory");
const cold = await timeUp(home);
const again = await timeUp(home);
const warm: UpTimes[] = [];
for (let trial = 1; trial <= Number(values.rounds); trial += 1) {
  say(`warm ${trial} of ${values.rounds}: down, up`);
  await run(home, "down");
  warm.push(await timeUp(home));
}
// After a warm start: the first one compiles, and keeps the compiler in memory.
say(`settling for ${values.settle} s, then watching for ${values.seconds} s`);
await pause(Number(values.settle) * 1000);
const idle = await watchIdle(home);
const start = await cliStartMs(home);

say("the demo set hibernates, wakes and hibernates again");
const firstSuspend = (await run(home, "suspend", "demo")).seconds;
const resumeSeconds = (await run(home, "resume", "demo")).seconds;
const secondSuspend = (await run(home, "suspend", "demo")).seconds;

const ours = Object.entries(idle).filter(([name]) => !controlPlane.includes(name));
const warmDemo = spread(warm, "demo");
printReport({
  bench: "up",
  figures: {
    coldSeconds: {
      controlPlane: round(cold.controlPlane),
      parts: round(cold.parts),
      demoReady: round(cold.demo),
    },
    warmSeconds: {
      controlPlane: spread(warm, "controlPlane"),
      parts: spread(warm, "parts"),
      demoReady: warmDemo,
    },
    alreadyUpSeconds: round(again.demo),
    idle,
    cliStartMs: start,
    suspendSeconds: {
      first: round(firstSuspend),
      second: round(secondSuspend),
      resume: round(resumeSeconds),
    },
  },
  targets: [
    { name: "warm up to demo machines ready, s", value: warmDemo.median, want: "<= 45" },
    ...ours.map(([name, { residentMB }]) => ({
      name: `${name} resident, MB`,
      value: residentMB,
      want: "<= 120",
    })),
    ...ours.map(([name, { cpuPercent }]) => ({
      name: `${name} idle, % of a core`,
      value: cpuPercent,
      want: "<= 0.5",
    })),
    { name: "cocoonctl suspend demo, first time, s", value: firstSuspend, want: "<= 8" },
    { name: "cocoonctl suspend demo, second time, s", value: secondSuspend, want: "<= 3" },
    { name: "cocoonctl version, ms", value: start.median, want: "<= 150" },
  ],
});
