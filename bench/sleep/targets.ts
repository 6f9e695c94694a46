/** What hibernating and waking promise. A figure that was not measured is no number, and its target not met. */
import type { Target } from "../report.ts";
import { linkSpeed } from "./lab.ts";
import type { CancelledSleep } from "./measure-sleep.ts";
import type { Slept } from "./lab.ts";
import type { Wake } from "./measure-wake.ts";

export interface Figures {
  fullPush?: Slept;
  first?: CancelledSleep;
  second?: CancelledSleep;
  changed?: CancelledSleep & { readonly changedBytes: number };
  /** From the last sign of life on one node to the first answer on another that has nothing. */
  migration?: { readonly freezeMs: number; readonly bytes: number };
  fullPull?: Wake;
  lazy?: Wake;
  sameNode?: Wake;
}

export type Part = "sleep" | "migrate" | "wake";
export const allParts: readonly Part[] = ["sleep", "migrate", "wake"];

const divide = (one: number | undefined, other: number | undefined): number =>
  one === undefined || other === undefined ? Number.NaN : one / other;

function beyondLink(freezeMs: number | undefined, bytes: number | undefined): number {
  if (freezeMs === undefined || bytes === undefined) return Number.NaN;
  return freezeMs - (1000 * bytes) / linkSpeed.bytesPerSecond;
}

function findSleepTargets({ first, second, changed }: Figures): Target[] {
  return [
    {
      name: "second sleep, part of the first one's bytes",
      value: divide(second?.bytesSent, first?.bytesSent),
      want: "<= 0.05",
    },
    {
      name: "second sleep, part of the first one's time",
      value: divide(second?.ms, first?.ms),
      want: "<= 0.3",
    },
    {
      name: "sleep after a change, bytes per changed byte",
      value: divide(changed?.bytesSent, changed?.changedBytes),
      want: "<= 1.3",
    },
    {
      name: "freeze of a hibernation that is cancelled, ms beyond the link's time",
      value: beyondLink(first?.freezeMs, first?.restBytes),
      want: "<= 1000",
    },
  ];
}

function findWakeTargets({ fullPull, lazy, sameNode }: Figures): Target[] {
  return [
    {
      name: "first answer of a lazy wake, part of the full pull's bytes",
      value: divide(lazy?.answerBytes, fullPull?.answerBytes),
      want: "<= 0.05",
    },
    {
      name: "first answer of a lazy wake, part of the full pull's time",
      value: divide(lazy?.answerMs, fullPull?.answerMs),
      want: "<= 0.15",
    },
    {
      name: "all local, part of the full pull's time",
      value: divide(lazy?.localMs, fullPull?.localMs),
      want: "<= 1.3",
    },
    {
      name: "wake on the node it slept on, bytes per byte of a full pull",
      value: divide(sameNode?.localBytes, fullPull?.localBytes),
      want: "<= 0.01",
    },
  ];
}

/** Those of the chosen parts, at 1024 MiB or the largest size that was measured. */
export function findTargets(figures: ReadonlyMap<number, Figures>, parts: readonly Part[]): Target[] {
  const main = figures.get(1024) ?? [...figures.values()].at(-1) ?? {};
  const [small, large] = [figures.get(512), figures.get(2048)];
  const flat = {
    name: "first answer at 2048 MiB against 512 MiB",
    value: divide(large?.lazy?.answerMs, small?.lazy?.answerMs),
    want: "<= 1.2",
  };
  const migration = {
    name: "freeze of a migration, ms beyond the link's time",
    value: beyondLink(main.migration?.freezeMs, main.migration?.bytes),
    want: "<= 1000",
  };
  return [
    ...(parts.includes("sleep") ? findSleepTargets(main) : []),
    ...(parts.includes("migrate") ? [migration] : []),
    ...(parts.includes("wake") ? [...findWakeTargets(main), ...(small && large ? [flat] : [])] : []),
  ];
}
