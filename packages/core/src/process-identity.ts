/** A pid is reused by the system; pid, start time and boot id together are not. */
import { readFileSync } from "node:fs";
import * as z from "zod";

export const processIdentitySchema = z.object({
  pid: z.int().positive(),
  /** Clock ticks after boot, field 22 of /proc/PID/stat. */
  startTicks: z.int().nonnegative(),
  bootId: z.string(),
});

export type ProcessIdentity = Readonly<z.infer<typeof processIdentitySchema>>;

/** The identity of a living process; undefined when there is none, zombies included. */
export function tryIdentify(pid: number): ProcessIdentity | undefined {
  const startTicks = readStartTicks(pid);
  return startTicks === undefined ? undefined : { pid, startTicks, bootId: bootId() };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identity.bootId === bootId() && readStartTicks(identity.pid) === identity.startTicks;
}

function readStartTicks(pid: number): number | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined; // no such process
  }
  // The command name is in parentheses and may itself hold blanks and parentheses: count from the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return hasEnded(fields) ? undefined : Number(fields[19]);
}

/** A first thread that has ended waits as a zombie for the others, which still hold files and locks of the process. */
function hasEnded(fields: readonly string[]): boolean {
  const [state, threads] = [fields[0], Number(fields[17])];
  return state === "X" || (state === "Z" && threads <= 1);
}

let knownBootId: string | undefined;

function bootId(): string {
  knownBootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  return knownBootId;
}
