/**
 * Takes a measurement while no other process uses the machine. What others use is known from the kernel's account of the
 * processors, less what the processes that take part used. A measurement that was disturbed is taken again, a bounded
 * number of times; the least disturbed one counts. It is never chosen by its outcome.
 */
import { readFileSync } from "node:fs";

const clockTickMs = 10;
const attempts = 3;
/** Share of one core that others may use. */
const toleratedCores = 0.1;

export interface Quiet<T> {
  readonly result: T;
  /** Cores that others kept busy, on average. */
  readonly foreignCores: number;
}

/** `participantsMs`: CPU time that other processes of the measurement have used so far. */
export function whenQuiet<T>(participantsMs: () => number, measure: () => T): Quiet<T> {
  let best: Quiet<T> | undefined;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const began = performance.now();
    const before = busyMs() - ownMs() - participantsMs();
    const result = measure();
    const foreignMs = busyMs() - ownMs() - participantsMs() - before;
    const foreignCores = Math.max(0, foreignMs / (performance.now() - began));
    if (!best || foreignCores < best.foreignCores) best = { result, foreignCores };
    if (foreignCores <= toleratedCores) break;
  }
  if (!best) throw new Error("nothing was measured");
  return best;
}

/** All processors together, with what the hypervisor took away. */
function busyMs(): number {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  const [user = 0, nice = 0, system = 0, _idle, _ioWait, irq = 0, softIrq = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softIrq + steal) * clockTickMs;
}

/** This process and the children that it has waited for. */
function ownMs(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0) * clockTickMs;
}

/** Those that no other process disturbed; all of them when these are too few to speak for anything. */
export function undisturbed<T extends Quiet<unknown>>(taken: readonly T[], enough: number): readonly T[] {
  const calm = taken.filter((each) => each.foreignCores <= toleratedCores);
  return calm.length >= enough ? calm : taken;
}
