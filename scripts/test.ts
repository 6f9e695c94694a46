/** Runs the tests in tiers: check, unit, integration (one real control plane for all files), end-to-end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ownControlPlane, testBinaries, tier } from "@cocoon/testkit";
import { runJobs, type JobOptions, type JobResult, type TestJob } from "./run-jobs.ts";

const root = join(import.meta.dirname, "..");
const usage = `npm test|run test:full|test:unit|test:int|test:e2e|check -- [--record] [FILE...]

  FILE       only these test files, relative to the repository (default: all of the tier)
  --record   writes how long each job took to test/durations.json when all passed (default: off)
  --help     prints this
`;
const [tierName = "all", ...rest] = process.argv.slice(2);
if (rest.includes("--help") || rest.includes("-h")) {
  process.stdout.write(usage);
  process.exit(0);
}
const isRecording = rest.includes("--record");
const named = rest.filter((argument) => argument !== "--record");
const unknown = named.filter((name) => !existsSync(join(root, name)));
if (unknown.length > 0) {
  console.error(`no such option or test file: ${unknown.join(", ")}\n\n${usage}`);
  process.exit(2);
}
/** Seconds of each job in the small tier, measured on two cores. */
const durationsPath = join(root, "test/durations.json");
const durations = JSON.parse(readFileSync(durationsPath, "utf8")) as Readonly<Record<string, number>>;

interface Step {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
}

const checks: readonly Step[] = [
  { name: "format", command: "oxfmt", args: ["--check"] },
  { name: "lint", command: "oxlint", args: ["--type-aware", "--deny-warnings"] },
  {
    name: "types",
    command: "tsc",
    args: ["--noEmit", "--incremental", "--tsBuildInfoFile", "node_modules/.cache/tsbuildinfo"],
  },
  { name: "unused code", command: "knip", args: ["--no-progress", "--no-config-hints"] },
  { name: "commit titles", command: process.execPath, args: ["scripts/commit-titles.ts"] },
  { name: "generated files", command: process.execPath, args: ["scripts/generate.ts", "--check"] },
];

const jobResults: JobResult[] = [];
const results: { readonly name: string; readonly ok: boolean; readonly seconds: number }[] = [];

async function timed(name: string, work: () => Promise<boolean>): Promise<boolean> {
  const began = performance.now();
  const ok = await work();
  results.push({ name, ok, seconds: (performance.now() - began) / 1000 });
  return ok;
}

async function runStep(step: Step): Promise<boolean> {
  const child = spawn(step.command, step.args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  console.log(`${code === 0 ? "✔" : "✖"} ${step.name}`);
  if (code !== 0) console.log(output);
  return code === 0;
}

/** Far beyond what a slow machine needs. */
function limits(): { readonly oneTestMs: number; readonly allMs: number } {
  const minute = 60_000;
  return tier() === "full"
    ? { oneTestMs: 40 * minute, allMs: 220 * minute }
    : { oneTestMs: 10 * minute, allMs: 60 * minute };
}

async function runTests(
  name: string,
  jobs: readonly TestJob[],
  options: Partial<JobOptions> = {},
): Promise<boolean> {
  console.log(`\n— ${name}: ${jobs.flatMap((job) => job.files).length} files`);
  const done = await runJobs(jobs, { ...limits(), ...options });
  jobResults.push(...done);
  const counts = ["pass", "fail", "cancelled", "skipped"].map(
    (kind) => `${done.reduce((sum, { counts }) => sum + (counts[kind] ?? 0), 0)} ${kind}`,
  );
  console.log(`\n${name}: ${counts.join(", ")}`);
  return done.length === jobs.length && done.every((result) => result.isOk);
}

/** The files that were named on the command line, else all that match. */
function findFiles(patterns: readonly string[]): string[] {
  return named.length > 0 ? named : globSync([...patterns], { cwd: root }).toSorted();
}

/** A job for each file: they start control planes, platforms and guests. */
function jobPerFile(patterns: readonly string[]): TestJob[] {
  return findFiles(patterns).map((file) => ({ name: file, files: [file], expectedSeconds: durations[file] }));
}

/** A job for each package: its files load the same modules, which takes longer than most tests. */
function jobPerPackage(patterns: readonly string[]): TestJob[] {
  const groups = Object.groupBy(
    findFiles(patterns),
    (file) => file.match(/^packages\/[^/]+/)?.[0] ?? "others",
  );
  return Object.entries(groups).map(([name, files = []]) => ({
    name: `unit tests of ${name}`,
    files,
    expectedSeconds: durations[name],
  }));
}

function unit(): Promise<boolean> {
  const patterns = ["packages/*/{src,web}/**/*.test.ts", "scripts/*.test.ts", "test/*.test.ts"];
  return timed("unit", () => runTests("unit", jobPerPackage(patterns)));
}

async function check(): Promise<boolean> {
  console.log("— check");
  let ok = true;
  for (const step of checks) ok = (await timed(step.name, () => runStep(step))) && ok;
  return (await unit()) && ok;
}

/** Built here where they are not cached: a test that has to build one runs into its time limit. */
async function preparePrograms(): Promise<void> {
  if (named.length === 0) await testBinaries(["metricsServer", "clusterNetwork"]);
}

/** With a control plane that those share which do not hurt it. */
async function onControlPlane(name: string, patterns: readonly string[]): Promise<boolean> {
  console.log("\n— starting a control plane for the integration tests");
  await preparePrograms();
  await using cluster = await ownControlPlane();
  const env = { COCOON_TEST_CLUSTER: cluster.layout.directory };
  return await timed(name, () => runTests(name, jobPerFile(patterns), { env, mayLeaveOpen: true }));
}

const integrationFiles = "test/integration/**/*.test.ts";
const endToEndFiles = "test/e2e/**/*.test.ts";

function integration(): Promise<boolean> {
  return onControlPlane("integration", [integrationFiles]);
}

/** Once, before platforms start at the same time: each would build what `npm run up` runs. */
function buildPrograms(): Promise<boolean> {
  const args = ["run", "--silent", "cocoonctl", "--", "--version"];
  return timed("programs", () => runStep({ name: "programs", command: "npm", args }));
}

async function endToEnd(): Promise<boolean> {
  await preparePrograms();
  const isBuilt = await buildPrograms();
  const run = () => runTests("end-to-end", jobPerFile([endToEndFiles]), { mayLeaveOpen: true });
  return (await timed("end-to-end", run)) && isBuilt;
}

async function all(): Promise<boolean> {
  const both = [integrationFiles, endToEndFiles];
  const outcomes = [
    await check(),
    await buildPrograms(),
    await onControlPlane("integration and end-to-end", both),
  ];
  return outcomes.every(Boolean);
}

const tiers: Readonly<Record<string, () => Promise<boolean>>> = {
  all,
  full: () => {
    process.env["COCOON_TEST_TIER"] = "full";
    return all();
  },
  check,
  unit,
  integration,
  e2e: endToEnd,
};

const selected = tiers[tierName];
if (!selected) {
  console.error(`unknown tier "${tierName}"; one of ${Object.keys(tiers).join(", ")}`);
  process.exit(2);
}
const ok = await selected();
printSummary();
if (ok && isRecording) await recordDurations();
process.exit(ok ? 0 : 1);

function printSummary(): void {
  console.log("\n— slowest");
  const slowest = jobResults.toSorted((one, other) => other.seconds - one.seconds).slice(0, 10);
  for (const { job, seconds } of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s ${job.name}`);
  console.log("\n— summary");
  for (const result of results)
    console.log(
      `${result.ok ? "✔" : "✖"} ${result.name.padEnd(18)} ${result.seconds.toFixed(1).padStart(7)} s`,
    );
  const failed = jobResults.flatMap(({ failedFiles }) => failedFiles);
  if (failed.length > 0) console.log("\n— run only what failed again");
  const scripts = Object.groupBy(failed, (file) =>
    file.startsWith("test/integration/")
      ? "test:int"
      : file.startsWith("test/e2e/")
        ? "test:e2e"
        : "test:unit",
  );
  for (const [script, files = []] of Object.entries(scripts))
    console.log(`npm run ${script} -- ${files.join(" ")}`);
}

/** What takes seconds; the order of the next runs follows from it. */
async function recordDurations(): Promise<void> {
  const recorded = new Map(Object.entries(durations));
  for (const { job, seconds } of jobResults)
    recorded.set(job.name.replace("unit tests of ", ""), Math.round(seconds));
  const sorted = [...recorded].toSorted(([one], [other]) => one.localeCompare(other));
  await writeFile(durationsPath, `${JSON.stringify(Object.fromEntries(sorted), undefined, 2)}\n`);
}
