/** Shows how much of a lazily woken machine has arrived, and what holds it up, as the message of its lifecycle state. */
import { getErrorMessage, isFault, sleep, type Abortable } from "@cocoon/core";
import type { VmLoading } from "@cocoon/vm";
import { openShare } from "../metrics.ts";
import { readPodMachine } from "../pod-machine.ts";
import { reports } from "./machine-state.ts";
import type { StepContext } from "./step-context.ts";

const mebibyte = 1024 * 1024;

function describeLoading({ doneBytes, totalBytes, problem }: VmLoading): string {
  const [done, total] = [doneBytes, totalBytes].map((bytes) => Math.ceil(bytes / mebibyte));
  return `loading, ${done} of ${total} MiB are on the node${problem ? `; held up: ${problem}` : ""}`;
}

/** Until all of it is here, or the signal aborts. Never throws. */
export async function showLoading(
  { tracked, runtime, log, metrics }: Pick<StepContext, "tracked" | "runtime" | "log" | "metrics">,
  vmId: string,
  { signal, everyMs = 3_000 }: Abortable & { readonly everyMs?: number },
): Promise<void> {
  using left = openShare(metrics.loading_left_bytes);
  while (await sleep(everyMs, { signal })) {
    try {
      const { loading } = await runtime.inspect(vmId, { signal });
      if (!loading) return;
      left.set(loading.totalBytes - loading.doneBytes);
      // Between two steps, and only what is reported of this generation: it must not take a step's word back.
      await tracked.exclusively(async () => {
        const machine = readPodMachine(tracked.writer.pod);
        const state = (["creating", "ready", "hibernating"] as const).find((each) => reports(machine, each));
        if (signal.aborted || !state) return;
        await tracked.writer.announce({ state, message: describeLoading(loading) }, { signal });
      });
    } catch (error) {
      if (signal.aborted || isFault(error, "notFound")) return;
      log.debug({ error: getErrorMessage(error) }, "loading not shown");
    }
  }
}
