/** Watches the runtime: a VM that changes requests a reconcile of its machine. Never gives up. */
import { Backoff, getErrorMessage, sleep, type Abortable, type Logger } from "@cocoon/core";
import type { VmEvent, VmRuntime } from "@cocoon/vm";

export interface WatchVmsOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly requeue: (vmName: string) => void;
  /** VMs were made or removed. */
  readonly onListChange: () => void;
  readonly log: Logger;
}

export async function watchVms(options: WatchVmsOptions): Promise<void> {
  const { log, signal } = options;
  const backoff = new Backoff({ baseMs: 1_000, maxMs: 60_000 });
  while (!signal.aborted) {
    try {
      await follow(options, backoff);
    } catch (error) {
      if (!signal.aborted) log.warn({ error: getErrorMessage(error) }, "VM watch broke off");
    }
    await sleep(backoff.nextMs(), { signal });
  }
}

async function follow(options: WatchVmsOptions, backoff: Backoff): Promise<void> {
  const { runtime, requeue, onListChange, signal } = options;
  const loading = new Set<string>();
  for await (const event of runtime.watch({ signal })) {
    backoff.reset();
    const name = getChangedName(event) ?? findLoaded(event, loading);
    if (name !== undefined) requeue(name);
    if (event.kind === "added" || event.kind === "removed") onListChange();
  }
}

/** The VM whose last content has just arrived. */
function findLoaded(event: VmEvent, loading: Set<string>): string | undefined {
  if (event.kind === "synced") return undefined;
  const { name } = event.vm;
  if (event.vm.loading) loading.add(name);
  else if (loading.delete(name)) return name;
  return undefined;
}

/** After a break everything is listed again, so an end that was missed is seen as well. */
function getChangedName(event: VmEvent): string | undefined {
  const matters = event.kind === "exited" || event.kind === "removed" || event.kind === "listed";
  return matters ? event.vm.name : undefined;
}
