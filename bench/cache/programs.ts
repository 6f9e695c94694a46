/** The programs of the comparison: built, and run once each time. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** Builds bench/peers/reflector; quick when it is up to date. */
export function buildReflector(): string {
  const output = join(root, "node_modules/.cache/bench/reflector");
  mkdirSync(join(output, ".."), { recursive: true });
  console.log("building bench/peers/reflector with Go");
  execFileSync("go", ["build", "-o", output, "."], {
    cwd: join(root, "bench/peers/reflector"),
    stdio: ["ignore", "inherit", "inherit"],
  });
  return output;
}

export function goVersion(): string {
  return execFileSync("go", ["env", "GOVERSION"], { encoding: "utf8" }).trim();
}

/** What a program says about itself when it is synced. */
export interface SyncReport {
  readonly objects: number;
  /** From opening the kubeconfig on. */
  readonly syncedMs: number;
  /** When that was, in Unix milliseconds. */
  readonly syncedAt: number;
  readonly residentKiB: number;
  readonly peakKiB: number;
  /** CPU time until synced. */
  readonly cpuMs: number;
}

export interface Run extends SyncReport {
  /** From starting the process on. */
  readonly fromStartMs: number;
}

/** Programs of a release are bundles; from sources, Node comes close to that when it may keep what it compiled. */
const env = { ...process.env, NODE_COMPILE_CACHE: join(root, "node_modules/.cache/compiled") };

export async function run([program = "", ...args]: readonly string[]): Promise<Run> {
  const startedAt = Date.now();
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "inherit"], timeout: 300_000 });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  const report = JSON.parse(output.trim().split("\n").at(-1) ?? "") as SyncReport;
  return { ...report, fromStartMs: report.syncedAt - startedAt };
}
