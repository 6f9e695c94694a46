/** The programs of the comparison: built, started on their core, measured. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import net from "node:net";
import { cpus } from "node:os";
import { join } from "node:path";
import { eventually, freePort } from "@cocoon/testkit";

const root = join(import.meta.dirname, "../..");

/** Server and load generator get a core each; with one core, or without taskset, they share what there is. */
export const pinning = canPin() ? { server: "0", load: "1" } : undefined;

function canPin(): boolean {
  if (cpus().length < 2) return false;
  try {
    execFileSync("taskset", ["-c", "0", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Builds a Go program of bench/peers; nothing is done when it is up to date. */
export function build(name: string): string {
  const output = join(root, "node_modules/.cache/bench", name);
  mkdirSync(join(output, ".."), { recursive: true });
  console.log(`building ${name}`);
  execFileSync("go", ["build", "-o", output, "."], {
    cwd: join(root, "bench/peers", name),
    stdio: ["ignore", "inherit", "inherit"],
  });
  return output;
}

function onCore(core: string | undefined, command: readonly string[]): [string, string[]] {
  const [program = "", ...args] = core === undefined ? command : ["taskset", "-c", core, ...command];
  return [program, args];
}

export interface Peer extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  /** CPU time used so far, in milliseconds. */
  cpuMs(): number;
  residentMiB(): number;
}

export async function startPeer(
  name: string,
  commandFor: (port: number) => readonly string[],
): Promise<Peer> {
  const port = await freePort();
  const child = spawn(...onCore(pinning?.server, commandFor(port)), {
    stdio: ["ignore", "inherit", "inherit"],
  });
  await eventually(() => canConnect(port), { timeoutMs: 30_000 });
  return {
    name,
    port,
    cpuMs: () => readCpuMs(child),
    residentMiB: () => readResidentMiB(child),
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

async function canConnect(port: number): Promise<void> {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}

const clockTickMs = 10;

function readCpuMs(child: ChildProcess): number {
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * clockTickMs;
}

function readResidentMiB(child: ChildProcess): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
}

export interface LoadOptions {
  readonly port: number;
  readonly bodyFile: string;
  readonly connections: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
  /** Requests per second; 0 = as many as are answered. */
  readonly rate: number;
  /** With query; default that of the echo webhook. */
  readonly path?: string;
}

export interface LoadReport {
  readonly requests: number;
  readonly failures: number;
  readonly firstFailure?: string;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Share of its core that the generator used: near 1 it would be the bottleneck. */
  readonly generatorCpu: number;
  readonly latenessP99Ms: number;
}

export function load(program: string, options: LoadOptions): LoadReport {
  const flags = {
    address: `127.0.0.1:${options.port}`,
    body: options.bodyFile,
    connections: options.connections,
    rate: options.rate,
    duration: `${options.seconds}s`,
    "warm-up": `${options.warmUpSeconds}s`,
    ...(options.path === undefined ? {} : { path: options.path }),
  };
  const given = Object.entries(flags).map(([name, value]) => `-${name}=${value}`);
  const [command, args] = onCore(pinning?.load, [program, ...given]);
  const report = JSON.parse(execFileSync(command, args, { encoding: "utf8" })) as LoadReport;
  if (report.failures > 0) throw new Error(`${report.failures} requests failed: ${report.firstFailure}`);
  return report;
}
