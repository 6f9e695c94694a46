/** One check of the stored content, in one replica at a time. */
import type { Services } from "../open-services.ts";
import type { ScrubRun, ScrubStatus } from "./scrubber.ts";

/** Resolves when the check runs; throws `conflict` when another one does. */
export async function beginScrub(
  { lease, scrubber, log }: Services,
  run: ScrubRun,
): Promise<{ readonly done: Promise<ScrubStatus> }> {
  const held = await lease.acquire();
  const running = scrubber.run({ ...run, signal: AbortSignal.any([run.signal, held.signal]) });
  const finish = async () => {
    try {
      const status = await running;
      const { blobs, bytes, unreadable, damaged } = status;
      log.info({ blobs, bytes, unreadable, damaged: damaged.length }, "content checked");
      return status;
    } finally {
      await held[Symbol.asyncDispose]();
    }
  };
  return { done: finish() };
}

export async function runScrub(services: Services, run: ScrubRun): Promise<ScrubStatus> {
  return (await beginScrub(services, run)).done;
}
