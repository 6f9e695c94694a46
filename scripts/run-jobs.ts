/**
 * Runs test files as jobs, each a process of its own. Node's runner would start files in alphabetical order, in as many
 * processes as files: a slow file that starts last is waited for alone, and starting a process costs more than most unit tests.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
/** Test files and the programs they start share compiled modules: each would compile several hundred again. */
const compiled = join(root, "node_modules/.cache/compiled");

export interface TestJob {
  readonly name: string;
  readonly files: readonly string[];
  /** How long it took when it was recorded. */
  readonly expectedSeconds?: number | undefined;
}

/** Of a job that was not recorded. */
const unknownSeconds = 30;

export interface JobOptions {
  readonly oneTestMs: number;
  readonly allMs: number;
  readonly env?: Readonly<Record<string, string>>;
  /** A process that is ended by force may lose the last lines of its report (not its verdict). */
  readonly mayLeaveOpen?: boolean;
  /** Takes the report of a job when it has ended; console.log unless given. */
  readonly print?: (report: string) => void;
}

export interface JobResult {
  readonly job: TestJob;
  readonly isOk: boolean;
  readonly seconds: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly failedFiles: readonly string[];
}

/**
 * Half of the lanes work from the longest job down, the other half from the shortest up: long jobs boot guests and need
 * a core each, short ones mostly wait.
 */
export async function runJobs(jobs: readonly TestJob[], options: JobOptions): Promise<JobResult[]> {
  const expected = (job: TestJob) => job.expectedSeconds ?? unknownSeconds;
  const waiting = jobs.toSorted((one, other) => expected(other) - expected(one));
  const running = new Set<ChildProcess>();
  const results: JobResult[] = [];
  const isAlone = jobs.length === 1;
  const lane = async (take: () => TestJob | undefined) => {
    for (let job = take(); job; job = take()) {
      const result = await runJob(job, { ...options, isAlone, running });
      results.push(result);
    }
  };
  const watchdog = setTimeout(() => {
    console.error(`✖ tests are not done after ${options.allMs / 60_000} minutes; stopping them`);
    waiting.length = 0;
    for (const child of running) child.kill("SIGINT"); // it names the tests that it was waiting for
  }, options.allMs);
  const cores = Math.min(availableParallelism(), 4);
  const lanes = Array.from({ length: cores }, () => [lane(() => waiting.shift()), lane(() => waiting.pop())]);
  await Promise.all(lanes.flat());
  clearTimeout(watchdog);
  return results;
}

interface RunOptions extends JobOptions {
  readonly isAlone: boolean;
  readonly running: Set<ChildProcess>;
}

async function runJob(job: TestJob, options: RunOptions): Promise<JobResult> {
  const began = performance.now();
  const child = spawn(process.execPath, [...buildArguments(options), ...job.files], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, NODE_COMPILE_CACHE: compiled, ...options.env },
  });
  options.running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (options.isAlone) process.stdout.write(text);
    });
  const [code] = (await once(child, "close")) as [number | null];
  options.running.delete(child);
  const seconds = (performance.now() - began) / 1000;
  const report = `\n— ${job.name} (${seconds.toFixed(1)} s)\n${removeCounts(output)}`;
  if (!options.isAlone) (options.print ?? console.log)(report);
  const isOk = code === 0;
  return { job, isOk, seconds, counts: readCounts(output), failedFiles: isOk ? [] : findFailed(job, output) };
}

function buildArguments({ oneTestMs, mayLeaveOpen }: JobOptions): string[] {
  return [
    "--test",
    "--test-isolation=none",
    "--test-reporter=spec",
    `--import=${pathToFileURL(join(root, "scripts/seeded-properties.ts")).href}`,
    // A test that hangs fails, and what it left open does not keep its file and the whole run waiting.
    `--test-timeout=${oneTestMs}`,
    ...(mayLeaveOpen ? ["--test-force-exit"] : []),
  ];
}

const countLine = /^ℹ (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([\d.]+)\n/gm;

function removeCounts(output: string): string {
  return output.replaceAll(countLine, "").trimEnd();
}

function readCounts(output: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [, name = "", value] of output.matchAll(countLine)) counts[name] = Number(value);
  return counts;
}

/** The files that the report names; all of the job when it ended before it could. */
function findFailed(job: TestJob, output: string): readonly string[] {
  const named = [...output.matchAll(/^test at (\S+?\.test\.ts):\d+:\d+$/gm)].map(([, file]) => file);
  const failed = job.files.filter((file) => named.includes(file));
  return failed.length > 0 ? failed : job.files;
}
