/**
 * QEMU processes: started so that they outlive us, found again, ended. They get no environment of ours (it may hold
 * tokens), the VM's directory as working directory, and their output in its log.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  isAlive,
  lastLines,
  signalProcess,
  sleep,
  tryIdentify,
  tryReadFile,
  withDeadline,
  type Abortable,
  type Exit,
  type ProcessIdentity,
} from "@cocoon/core";
import { vmFile } from "../store/layout.ts";
import type { VmExit } from "@cocoon/vm";
import { abortMount, unmountFuse } from "../lazy/mount.ts";
import { connectQmp, type QmpClient } from "../qmp/qmp.ts";

export interface LaunchOptions {
  readonly binary: string;
  readonly directory: string;
  readonly arguments: readonly string[];
  /** Becomes descriptor 3 of the process. */
  readonly inherit?: string;
  /** Becomes descriptor 4 of the process, which never uses it: so that it stays open as long as the process lives. */
  readonly keep?: number;
  /** Libraries that come before all others. */
  readonly preload?: string;
  readonly runAs?: { readonly uid: number; readonly gid: number };
  /** Program and arguments in front of QEMU's own; it becomes QEMU. */
  readonly prefix?: readonly string[];
}

/** Starts QEMU; resolves as soon as there is a process. What becomes of it shows in its QMP socket. */
export async function launchQemu(options: LaunchOptions): Promise<ProcessIdentity> {
  const log = openSync(join(options.directory, vmFile.log), "a", 0o600);
  const inherited = options.inherit === undefined ? undefined : openSync(options.inherit, "r");
  try {
    const [program = "", ...args] = [...(options.prefix ?? []), options.binary, ...options.arguments];
    const child = spawn(program, args, {
      stdio: ["ignore", log, log, ...listInherited(inherited, options.keep)],
      detached: true,
      cwd: options.directory,
      env: options.preload === undefined ? {} : { LD_PRELOAD: options.preload },
      ...options.runAs,
    });
    await once(child, "spawn").catch((error: unknown) => {
      throw new Fault("unavailable", `cannot start ${options.binary}`, { cause: error });
    });
    child.unref();
    const identity = tryIdentify(child.pid ?? 0);
    if (!identity) throw endedEarly(options.directory);
    child.once("exit", (code, signal) => rememberEnd(identity, { code, signal }));
    return identity;
  } finally {
    closeSync(log);
    if (inherited !== undefined) closeSync(inherited);
  }
}

function listInherited(state: number | undefined, keep: number | undefined): (number | "ignore")[] {
  if (keep !== undefined) return [state ?? "ignore", keep];
  return state === undefined ? [] : [state];
}

/** How our own children ended; others' we cannot know. */
const ends = new Map<string, Exit>();
const keptEnds = 1000;

function rememberEnd(identity: ProcessIdentity, exit: Exit): void {
  ends.set(formatKey(identity), exit);
  const [oldest] = ends.keys();
  if (ends.size > keptEnds && oldest !== undefined) ends.delete(oldest);
}

function formatKey(identity: ProcessIdentity): string {
  return `${identity.pid} ${identity.startTicks}`;
}

const connectEveryMs = 3;
const startupMs = 30_000;

/** Waits until a QEMU that was just launched answers on its command socket. */
export async function awaitQmp(
  directory: string,
  process: ProcessIdentity,
  options: Abortable,
): Promise<QmpClient> {
  const signal = withDeadline(options.signal, startupMs);
  for (;;) {
    const client = await tryConnect(directory, signal);
    if (client) return client;
    if (!isAlive(process)) throw endedEarly(directory);
    if (!(await sleep(connectEveryMs, { signal })))
      throw signal === options.signal || options.signal.aborted
        ? abortReason(options.signal)
        : new Fault("timeout", `QEMU did not come up within ${startupMs} ms: ${readLastLogLines(directory)}`);
  }
}

async function tryConnect(directory: string, signal: AbortSignal): Promise<QmpClient | undefined> {
  try {
    return await connectQmp({ directory, socket: vmFile.qmp, signal });
  } catch (error) {
    if (error instanceof Fault && (error.code === "notFound" || error.code === "unavailable"))
      return undefined;
    throw error;
  }
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error("aborted");
}

function endedEarly(directory: string): Fault {
  const words = readLastLogLines(directory);
  return new Fault(/no space left/i.test(words) ? "outOfSpace" : "internal", `QEMU did not start: ${words}`);
}

/** The end of QEMU's own log, for people. */
export function readLastLogLines(directory: string): string {
  return lastLines(join(directory, vmFile.log), 3).join(" | ") || "it said nothing";
}

/**
 * Ends the process at once and waits until it is gone. It must carry the VM's id: a record that was tampered
 * with does not make us end another one.
 */
// oxlint-disable-next-line max-params -- the process and whose it is
export async function killQemu(process: ProcessIdentity, id: string, directory: string): Promise<void> {
  if (!isAlive(process)) return;
  if (!(await belongsTo(process.pid, id)))
    throw new Fault("conflict", `process ${process.pid} is not the QEMU of VM ${id}; it is left alone`);
  signalProcess(process, "SIGKILL");
  await abortMount(join(directory, vmFile.lazy)); // or it waits for content for ever, and cannot be killed
  if (!(await awaitGone(process, { signal: AbortSignal.timeout(10_000) })))
    throw new Fault("timeout", `QEMU process ${process.pid} does not end, not even by SIGKILL`);
}

/** True when the process is gone, false when the signal aborted first. */
export async function awaitGone(process: ProcessIdentity, options: Abortable): Promise<boolean> {
  while (isAlive(process)) if (!(await sleep(5, options))) return !isAlive(process);
  return true;
}

export interface ExitEvidence {
  /** What QEMU said before it ended, if a connection was open. */
  readonly shutdownReason?: string;
  /** A stop was requested. */
  readonly asked: boolean;
}

/** Why a QEMU that is gone has ended, as far as is known. */
export async function explainExit(
  directory: string,
  process: ProcessIdentity,
  { shutdownReason, asked }: ExitEvidence,
): Promise<Pick<VmExit, "reason" | "detail">> {
  if (asked) return { reason: "stopped" };
  if (shutdownReason?.startsWith("guest")) return { reason: "guest", detail: shutdownReason };
  if (shutdownReason?.startsWith("host")) return { reason: "killed", detail: shutdownReason };
  if (!isOfThisBoot(process)) return { reason: "lost", detail: "the host was started again" };
  const end = ends.get(formatKey(process));
  if (end) return explainEnd(directory, end);
  const inOrder = (await tryReadFile(join(directory, vmFile.pid))) === undefined; // QEMU removes it at its end
  if (inOrder) return { reason: "guest", detail: "QEMU ended in order" };
  return { reason: "lost", detail: "QEMU was killed or crashed while no process watched it" };
}

function explainEnd(directory: string, { code, signal }: Exit): Pick<VmExit, "reason" | "detail"> {
  if (signal === "SIGKILL" || signal === "SIGTERM" || signal === "SIGINT")
    return { reason: "killed", detail: signal };
  if (signal !== null || code !== 0) return { reason: "crashed", detail: readLastLogLines(directory) };
  return { reason: "guest", detail: "QEMU ended in order" };
}

function isOfThisBoot({ bootId }: ProcessIdentity): boolean {
  return bootId === tryIdentify(process.pid)?.bootId;
}

/**
 * QEMU processes of that VM which no record names: their starter died before it could write them down. Every QEMU
 * carries its VM's id in its arguments.
 */
async function findStrays(id: string): Promise<readonly ProcessIdentity[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      return (await belongsTo(Number(pid), id)) ? tryIdentify(Number(pid)) : undefined;
    }),
  );
  return found.filter((identity) => identity !== undefined);
}

async function belongsTo(pid: number, id: string): Promise<boolean> {
  const words = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return words.includes(`\0guest=${id},`);
}

/** Ends every process of that VM, recorded or not, and removes what it would trip over next time. */
export async function endEverything(id: string, directory: string): Promise<void> {
  for (const stray of await findStrays(id)) await killQemu(stray, id, directory);
  await unmountFuse(join(directory, vmFile.lazy));
  await rm(join(directory, vmFile.pid), { force: true });
}
