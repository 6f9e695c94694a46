/**
 * Which machines are idle, and since when: little CPU used, no stream open, nothing forwarded, hardly any traffic.
 * The time is published on the pod when a machine has been idle for a while, and removed as soon as it is not; a
 * machine that stays as it is costs no write.
 */
import { annotation, readHibernate } from "@cocoon/contract";
import { getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
import { keyText } from "@cocoon/kube";
import type { VmRuntime, VmStats } from "@cocoon/vm";
import type { TrackedMachine } from "./provider/tracked-machine.ts";

export interface IdleSettings {
  /** 0: never sampled. */
  readonly sampleMs: number;
  /** A machine that uses more of its CPUs is not idle. */
  readonly cpuPercent: number;
}

export const defaultIdle: IdleSettings = { sampleMs: 30_000, cpuPercent: 2 };

/** Neighbours and clocks talk a little in any network; a person or a program that works talks more. */
const quietBytesPerSecond = 512;
/** Samples in a row that must be idle before it is published: no flapping. */
const samplesUntilIdle = 2;

export interface Sample {
  readonly stats: VmStats;
  readonly cpus: number;
  /** Grows with all that streams of users carried. */
  readonly carried: number;
  readonly openStreams: number;
}

/** Whether nothing happened between two samples. */
export function isIdleBetween(before: Sample, now: Sample, { cpuPercent }: IdleSettings): boolean {
  const seconds = (Date.parse(now.stats.at) - Date.parse(before.stats.at)) / 1000;
  if (!(seconds > 0)) return false;
  const cpuSeconds = (now.stats.cpu.usageNanos - before.stats.cpu.usageNanos) / 1e9;
  const used = (100 * cpuSeconds) / (seconds * Math.max(1, now.cpus));
  const traffic = countTraffic(now.stats) - countTraffic(before.stats);
  return (
    now.openStreams === 0 &&
    now.carried === before.carried &&
    used >= 0 &&
    used < cpuPercent &&
    traffic <= quietBytesPerSecond * seconds
  );
}

function countTraffic({ network }: VmStats): number {
  return network ? network.receivedBytes + network.sentBytes : 0;
}

/** What is known of one VM between two samples. */
interface Memory {
  readonly vm: string;
  readonly sample: Sample;
  readonly idleSamples: number;
  readonly since: string;
}

export interface IdleWatchOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly machines: () => Iterable<TrackedMachine>;
  readonly settings: IdleSettings;
  readonly log: Logger;
}

/** Runs until the signal aborts. */
export async function watchIdle(options: IdleWatchOptions): Promise<void> {
  const { settings, signal } = options;
  if (settings.sampleMs === 0) return;
  const watch = new IdleWatch(options);
  while (await sleep(settings.sampleMs, { signal }))
    for (const tracked of options.machines()) await watch.tryLook(tracked);
}

class IdleWatch {
  readonly #options: IdleWatchOptions;
  readonly #memories = new WeakMap<TrackedMachine, Memory>();
  /** What was found out waits for its turn at that tracked. */
  readonly #publishing = new WeakSet<TrackedMachine>();

  constructor(options: IdleWatchOptions) {
    this.#options = options;
  }

  async tryLook(tracked: TrackedMachine): Promise<void> {
    try {
      await this.#look(tracked);
    } catch (error) {
      this.#say(tracked, error);
    }
  }

  async #look(tracked: TrackedMachine): Promise<void> {
    const { runtime, settings, signal } = this.#options;
    const { shown } = tracked;
    if (shown?.kind !== "live" || !shown.ready || shown.vmId === "" || isLeaving(tracked)) {
      this.#memories.delete(tracked);
      return;
    }
    const [vm, stats] = await Promise.all([
      runtime.inspect(shown.vmId, { signal }),
      runtime.stats(shown.vmId, { signal }),
    ]);
    const { carried, open: openStreams } = tracked.use;
    const sample: Sample = { stats, cpus: vm.config.cpus, carried, openStreams };
    const identity = `${vm.id} ${vm.epoch}`;
    const known = this.#memories.get(tracked);
    const last = known?.vm === identity ? known : undefined;
    const idle = last !== undefined && isIdleBetween(last.sample, sample, settings);
    this.#memories.set(tracked, {
      vm: identity,
      sample,
      idleSamples: idle ? last.idleSamples + 1 : 0,
      since: idle ? last.since : truncateToSeconds(stats.at),
    });
    if (!last) return;
    const published = tracked.writer.pod.metadata.annotations?.[annotation.idleSince];
    const wanted = wantedText(idle, { samples: last.idleSamples + 1, since: last.since, published });
    if (wanted !== published) this.#publish(tracked, wanted);
  }

  /** Other machines do not wait until this one is free. */
  #publish(tracked: TrackedMachine, wanted: string | undefined): void {
    if (this.#publishing.has(tracked)) return;
    this.#publishing.add(tracked);
    const { signal } = this.#options;
    const written = tracked.exclusively(async () => {
      if (!tracked.ended && !isLeaving(tracked))
        await tracked.writer.write({ [annotation.idleSince]: wanted ?? null }, { signal });
    });
    void written
      .catch((error: unknown) => this.#say(tracked, error))
      .finally(() => this.#publishing.delete(tracked));
  }

  #say(tracked: TrackedMachine, error: unknown): void {
    this.#options.log.debug(
      { pod: keyText(tracked.key), error: getErrorMessage(error) },
      "idleness not published",
    );
  }
}

/** It hibernates or is terminating: idleness no longer matters. */
function isLeaving({ writer }: TrackedMachine): boolean {
  const { annotations, deletionTimestamp } = writer.pod.metadata;
  return readHibernate(annotations) || deletionTimestamp !== undefined;
}

/** A time that is published stays while the machine is idle, also over a restart of ours. */
function wantedText(
  idle: boolean,
  seen: { readonly samples: number; readonly since: string; readonly published: string | undefined },
): string | undefined {
  if (!idle) return undefined;
  return seen.published ?? (seen.samples >= samplesUntilIdle ? seen.since : undefined);
}

function truncateToSeconds(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}
