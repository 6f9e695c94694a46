/** A benchmark that is interrupted, or dies, leaves no program and no files behind. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { eventually, temporaryDirectory } from "@cocoon/testkit";

const bench = join(import.meta.dirname, "../../../scripts/bench.ts");

interface Process {
  readonly pid: number;
  readonly command: string;
}

/** Every process whose command line or environment names the directory. */
async function findProcesses(directory: string): Promise<Process[]> {
  const found: Process[] = [];
  for (const pid of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    const [command = "", environment = ""] = await Promise.all(
      ["cmdline", "environ"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
    );
    if (`${command}${environment}`.includes(directory)) found.push({ pid: Number(pid), command });
  }
  return found;
}

/** Runs the benchmark of the operator until its operator runs, ends it that way, and looks at what is left. */
async function assertNothingLeft(end: (runner: ChildProcess, inner: number) => void): Promise<void> {
  await using directory = await temporaryDirectory();
  const runner = spawn(process.execPath, [bench, "operator", "--sets", "0", "--churn", "1000"], {
    env: { ...process.env, TMPDIR: directory.path },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const gone = once(runner, "exit");
  let said = "";
  runner.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const inner = await eventually(
    async () => {
      const started = await findProcesses(directory.path);
      for (const program of ["etcd", "kube-apiserver", "cocoon-operator"])
        assert.ok(
          started.some(({ command }) => command.includes(program)),
          `${program} does not run; the benchmark ended with ${runner.exitCode}: ${said}`,
        );
      const benchmark = started.find(({ command }) => command.includes(join("bench", "operator.ts")));
      assert.ok(benchmark, "the benchmark runs");
      return benchmark.pid;
    },
    { timeoutMs: 240_000, intervalMs: 500 },
  );
  end(runner, inner);
  const [code] = (await gone) as [number | null];
  assert.notEqual(code, 0, "an interrupted benchmark has not succeeded");
  await eventually(async () => assert.deepEqual(await findProcesses(directory.path), []), {
    timeoutMs: 10_000,
  });
  assert.deepEqual(await readdir(directory.path), []);
}

test("an interrupted benchmark ends the programs that it started", () =>
  assertNothingLeft((runner) => runner.kill("SIGINT")));

test("a benchmark that dies leaves no program behind", () =>
  assertNothingLeft((_runner, inner) => process.kill(inner, "SIGKILL")));
