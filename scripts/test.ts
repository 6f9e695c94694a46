/**
 * Runs the tests in tiers: check, unit, integration (one real control plane for all files), end-to-end.
 *
 *   node scripts/test.ts all|full|check|unit|integration|e2e [file…]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ownControlPlane, tier } from "@cocoon/testkit";

const root = join(import.meta.dirname, "..");
/** Test files and the programs they start share compiled modules: each would compile several hundred again. */
const compiled = join(root, "node_modules/.cache/compiled");
const [tierName = "all", ...files] = process.argv.slice(2);

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

async function runTests(
  name: string,
  patterns: readonly string[],
  options: {
    concurrency: number;
    env?: Record<string, string>;
    /** A process that is ended by force may lose the last lines of its report (not its verdict). */
    mayLeaveOpen?: boolean;
  },
): Promise<boolean> {
  const found = files.length > 0 ? files : longestFirst(globSync([...patterns], { cwd: root }));
  if (found.length === 0) {
    console.log(`no ${name} tests here`);
    return true;
  }
  console.log(`\n— ${name}: ${found.length} files`);
  const child = spawn(
    process.execPath,
    [
      "--test",
      `--test-concurrency=${options.concurrency}`,
      "--test-reporter=spec",
      `--import=${pathToFileURL(join(root, "scripts/seeded-properties.ts")).href}`,
      // A test that hangs fails, and what it left open does not keep its file and the whole run waiting.
      `--test-timeout=${limits().oneTestMs}`,
      ...(options.mayLeaveOpen ? ["--test-force-exit"] : []),
      ...found,
    ],
    { cwd: root, stdio: "inherit", env: { ...process.env, NODE_COMPILE_CACHE: compiled, ...options.env } },
  );
  const closed = once(child, "close") as Promise<[number | null]>;
  const watchdog = setTimeout(() => {
    console.error(`✖ ${name} tests are not done after ${limits().allMs / 60_000} minutes; stopping them`);
    child.kill("SIGINT"); // the runner names the files that it was waiting for
  }, limits().allMs);
  const [code] = await closed;
  clearTimeout(watchdog);
  return code === 0;
}

/** Far beyond what a slow machine needs. */
function limits(): { readonly oneTestMs: number; readonly allMs: number } {
  const minute = 60_000;
  return tier() === "full"
    ? { oneTestMs: 40 * minute, allMs: 220 * minute }
    : { oneTestMs: 10 * minute, allMs: 45 * minute };
}

/** Files that take a minute or more. They begin first: a slow file that begins last is waited for alone. */
const longest = [
  "test/e2e/platform.test.ts",
  "test/e2e/up.test.ts",
  "test/integration/vm-images/identity.test.ts",
  "test/integration/vm-network/bridge.test.ts",
  "test/integration/kube-client/disasters.test.ts",
  "test/integration/vm/qemu-contract.test.ts",
  "test/integration/kube-client/cuts.test.ts",
  "test/integration/vm/variants.test.ts",
  "test/integration/registry/kill.test.ts",
];

function longestFirst(found: readonly string[]): string[] {
  const sorted = found.toSorted();
  return [
    ...longest.filter((file) => found.includes(file)),
    ...sorted.filter((file) => !longest.includes(file)),
  ];
}

function unit(): Promise<boolean> {
  return timed("unit", () =>
    runTests("unit", ["packages/*/{src,web}/**/*.test.ts", "scripts/*.test.ts", "test/*.test.ts"], {
      concurrency: 2,
    }),
  );
}

async function check(): Promise<boolean> {
  console.log("— check");
  let ok = true;
  for (const step of checks) ok = (await timed(step.name, () => runStep(step))) && ok;
  return (await unit()) && ok;
}

/** With a control plane that those share which do not hurt it. Most of the time they wait, so more run than there are cores. */
async function onControlPlane(name: string, patterns: readonly string[]): Promise<boolean> {
  console.log("\n— starting a control plane for the integration tests");
  await using cluster = await ownControlPlane();
  const env = { COCOON_TEST_CLUSTER: cluster.layout.directory };
  return await timed(name, () => runTests(name, patterns, { concurrency: 3, env, mayLeaveOpen: true }));
}

const integrationFiles = "test/integration/**/*.test.ts";
const endToEndFiles = "test/e2e/**/*.test.ts";

function integration(): Promise<boolean> {
  return onControlPlane("integration", [integrationFiles]);
}

function endToEnd(): Promise<boolean> {
  return timed("end-to-end", () =>
    runTests("end-to-end", [endToEndFiles], { concurrency: 1, mayLeaveOpen: true }),
  );
}

async function all(): Promise<boolean> {
  const both = [integrationFiles, endToEndFiles];
  const outcomes = [await check(), await onControlPlane("integration and end-to-end", both)];
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
console.log("\n— summary");
for (const result of results)
  console.log(
    `${result.ok ? "✔" : "✖"} ${result.name.padEnd(18)} ${result.seconds.toFixed(1).padStart(7)} s`,
  );
process.exit(ok ? 0 : 1);
