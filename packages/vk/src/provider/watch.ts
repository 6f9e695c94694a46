/** Listens to the runtime: what happens to a VM makes its machine be looked at. Never gives up. */
import { Backoff, messageOf, sleep, type Abortable, type Logger } from "@cocoon/core";
import type { VmEvent, VmRuntime } from "@cocoon/vm";

export interface WatchVmsOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly lookAgain: (vmName: string) => void;
  readonly log: Logger;
}

export async function watchVms(options: WatchVmsOptions): Promise<void> {
  const { log, signal } = options;
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
  while (!signal.aborted) {
    try {
      await follow(options, backoff);
    } catch (error) {
      if (!signal.aborted) log.warn({ error: messageOf(error) }, "VM watch broke off");
    }
    await sleep(backoff.nextMs(), { signal });
  }
}

async function follow({ runtime, lookAgain, signal }: WatchVmsOptions, backoff: Backoff): Promise<void> {
  for await (const event of runtime.watch({ signal })) {
    backoff.reset();
    const name = nameOfChanged(event);
    if (name !== undefined) lookAgain(name);
  }
}

/** After a break everything is listed again, so an end that was missed is seen as well. */
function nameOfChanged(event: VmEvent): string | undefined {
  const matters = event.kind === "exited" || event.kind === "removed" || event.kind === "listed";
  return matters ? event.vm.name : undefined;
}
