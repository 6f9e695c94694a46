/** Listens to the runtime: what happens to a VM makes its machine be looked at. Never gives up. */
import { Backoff, messageOf, sleep, type Abortable, type Logger } from "@cocoon/core";
import type { VmRuntime } from "@cocoon/vm";

export interface WatchVmsOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly lookAgain: (vmName: string) => void;
  readonly log: Logger;
}

export async function watchVms({ runtime, lookAgain, log, signal }: WatchVmsOptions): Promise<void> {
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
  while (!signal.aborted) {
    try {
      for await (const event of runtime.watch({ signal })) {
        backoff.reset();
        // After a break everything is listed again, so an end that was missed is seen as well.
        if (event.kind === "exited" || event.kind === "removed" || event.kind === "listed")
          lookAgain(event.vm.name);
      }
    } catch (error) {
      if (!signal.aborted) log.warn({ error: messageOf(error) }, "VM watch broke off");
    }
    await sleep(backoff.nextMs(), { signal });
  }
}
