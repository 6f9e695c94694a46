/** What a registry does by itself: collects garbage, ends idle uploads, checks its content. */
import { isFault, getErrorMessage, sleep } from "@cocoon/core";
import { runScrub } from "./scrub/run-scrub.ts";
import type { Services } from "./open-services.ts";

export interface MaintenanceOptions {
  /** Time between runs of garbage collection; 0, the default, for none but on request. */
  readonly gcIntervalMs?: number;
  /** Time between checks of the content; 0, the default, for none but on request. */
  readonly scrubIntervalMs?: number;
  readonly scrubBytesPerSecond?: number;
}

export const maintenanceDefaults = {
  gcIntervalMs: 6 * 3_600_000,
  scrubIntervalMs: 7 * 24 * 3_600_000,
  scrubBytesPerSecond: 8 * 2 ** 20,
} as const;

const expireEveryMs = 60_000;
/** A restart must not put off the check for another interval. */
const firstScrubMs = 10 * 60_000;
const tokenReloadMs = 5_000;

export async function maintain(services: Services, options: MaintenanceOptions): Promise<void> {
  const { gcIntervalMs = 0, scrubIntervalMs = 0 } = options;
  const bytesPerSecond = options.scrubBytesPerSecond ?? maintenanceDefaults.scrubBytesPerSecond;
  const { storage, tokens, uploads, collector, metrics, log, stopping: signal } = services;
  await Promise.all([
    repeat(services, {
      what: "expiry of uploads",
      intervalMs: expireEveryMs,
      work: async () => void (await uploads.expire()),
    }),
    repeat(services, {
      what: "garbage collection",
      intervalMs: gcIntervalMs,
      work: async () => {
        const report = await collector.run({ signal });
        metrics.countCollection(report);
        log.info({ ...report }, "garbage collected");
      },
      onFailure: () => metrics.countCollection(undefined),
    }),
    repeat(services, {
      what: "check of the content",
      intervalMs: scrubIntervalMs,
      firstMs: firstScrubMs,
      work: async () => void (await runScrub(services, { signal, repair: true, bytesPerSecond })),
    }),
    repeat(services, {
      what: "reading of tokens",
      intervalMs: storage.isShared ? tokenReloadMs : 0,
      work: () => tokens.reload(),
    }),
  ]);
}

interface Task {
  readonly what: string;
  readonly intervalMs: number;
  readonly firstMs?: number;
  readonly work: () => Promise<void>;
  readonly onFailure?: () => void;
}

async function repeat({ log, stopping }: Services, task: Task): Promise<void> {
  if (task.intervalMs === 0) return;
  let waitMs = Math.min(task.firstMs ?? task.intervalMs, task.intervalMs);
  while (await sleep(waitMs * (0.9 + 0.2 * Math.random()), { signal: stopping })) {
    waitMs = task.intervalMs;
    try {
      await task.work();
    } catch (error) {
      if (stopping.aborted) return;
      if (isFault(error, "conflict")) log.info({ error: getErrorMessage(error) }, `${task.what} skipped`);
      else {
        task.onFailure?.();
        log.error({ error: getErrorMessage(error) }, `${task.what} failed`);
      }
    }
  }
}
