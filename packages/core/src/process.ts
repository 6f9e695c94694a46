/** Child programs: started, watched, stopped with TERM and then KILL. Output goes to a file, which outlives us. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { sleep } from "./abort.ts";
import { Fault } from "./fault.ts";
import { isAlive, tryIdentify, type ProcessIdentity } from "./process-identity.ts";

export interface ProgramSpec {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly logFile: string;
  /** In its own session: it keeps running when we end. */
  readonly detached?: boolean;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningProgram extends AsyncDisposable {
  readonly identity: ProcessIdentity;
  readonly exited: Promise<Exit>;
  stop(options?: StopOptions): Promise<void>;
}

export interface StopOptions {
  readonly graceMs?: number;
}

const defaultGraceMs = 10_000;

export async function startProgram(spec: ProgramSpec): Promise<RunningProgram> {
  const log = openSync(spec.logFile, "a", 0o600);
  const child = spawn(spec.command, spec.args, {
    stdio: ["ignore", log, log],
    detached: spec.detached ?? false,
    env: { ...process.env, ...spec.env }, // oxlint-disable-line node/no-process-env -- children inherit ours
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
  });
  closeSync(log);
  try {
    await once(child, "spawn");
  } catch (error) {
    throw new Fault("unavailable", `cannot start ${spec.name} (${spec.command})`, { cause: error });
  }
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  // A program that has already ended has no start time any more; nothing alive will ever match this identity.
  const identity = tryIdentify(child.pid ?? 0) ?? { pid: child.pid ?? 0, startTicks: 0, bootId: "ended" };
  if (spec.detached) child.unref();
  const stop = (options: StopOptions = {}) => stopProcess(identity, options);
  return { identity, exited, stop, [Symbol.asyncDispose]: () => stop() };
}

/** TERM, wait, KILL, wait. Does nothing when that process is no longer there. */
export async function stopProcess(
  identity: ProcessIdentity,
  { graceMs = defaultGraceMs }: StopOptions = {},
): Promise<void> {
  if (!signalProcess(identity, "SIGTERM")) return;
  if (await waitGone(identity, graceMs)) return;
  signalProcess(identity, "SIGKILL");
  if (!(await waitGone(identity, 5_000)))
    throw new Fault("timeout", `process ${identity.pid} does not end, not even by SIGKILL`);
}

/** Sends a signal to that very process; false when it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    return process.kill(identity.pid, signal);
  } catch {
    return false; // it ended between the look and the signal
  }
}

async function waitGone(identity: ProcessIdentity, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (isAlive(identity)) {
    if (performance.now() > deadline) return false;
    await sleep(10, { signal: new AbortController().signal });
  }
  return true;
}

const tailBytes = 64 * 1024;

export function lastLines(path: string, count: number): string[] {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch {
    return [];
  }
  try {
    const size = fstatSync(file).size;
    const buffer = Buffer.alloc(Math.min(size, tailBytes));
    readSync(file, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString("utf8").trimEnd().split("\n").slice(-count);
  } finally {
    closeSync(file);
  }
}

/** One abort signal for a program: the first SIGINT or SIGTERM aborts it, a second one ends the process at once. */
export function abortOnSignals(): AbortSignal {
  const controller = new AbortController();
  const onSignal = (signal: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(signal === "SIGINT" ? 130 : 143); // oxlint-disable-line no-process-exit -- the user insists
    controller.abort(new Error(`stopped by ${signal}`));
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return controller.signal;
}
