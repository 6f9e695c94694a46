/** Shows how far a push or pull is as the message of the machine's lifecycle state, at most every few seconds. */
import type { LifecycleState } from "@cocoon/contract";
import { getErrorMessage, type Abortable } from "@cocoon/core";
import type { OnProgress, Progress } from "@cocoon/oci";
import { openShare } from "../metrics.ts";
import type { StepContext } from "./step-context.ts";

const everyMs = 3_000;
const mebibyte = 1024 * 1024;

const verbs: Readonly<Record<Progress["phase"], string>> = {
  reading: "reading",
  sending: "pushing",
  fetching: "pulling",
  writing: "writing",
};

/** Dispose it after the transfer: every later write of the state then comes after the last message. */
export function showProgress(
  { tracked, log, metrics }: Pick<StepContext, "tracked" | "log" | "metrics">,
  state: LifecycleState,
  { signal }: Abortable,
): AsyncDisposable & { readonly onProgress: OnProgress } {
  let last: Progress | undefined;
  let written = Promise.resolve();
  const announce = async ({ phase, doneBytes, totalBytes }: Progress): Promise<void> => {
    const [done, total] = [doneBytes, totalBytes].map((bytes) => Math.ceil(bytes / mebibyte));
    try {
      await tracked.writer.announce(
        { state, message: `${verbs[phase]} ${done} of ${total} MiB` },
        { signal },
      );
    } catch (error) {
      if (!signal.aborted) log.debug({ error: getErrorMessage(error) }, "progress not shown");
    }
  };
  const left = openShare(state === "hibernating" ? metrics.push_left_bytes : metrics.pull_left_bytes);
  const timer = setInterval(() => {
    if (last) written = written.then(announce.bind(undefined, last));
  }, everyMs);
  return {
    onProgress: (progress) => {
      last = progress;
      left.set(progress.totalBytes - progress.doneBytes);
    },
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      left[Symbol.dispose]();
      return written;
    },
  };
}
