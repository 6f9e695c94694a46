/**
 * The push of a machine that goes to sleep. From here on it is paused and saved on its node, which is published: a client need not
 * wait for the push. A wake in between ends the push, and the machine continues in place.
 */
import { annotation, hibernateTag, readHibernate } from "@cocoon/contract";
import { Fault, getErrorMessage, isFault, sleep, type Abortable } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import type { Vm } from "@cocoon/vm";
import { push } from "./apply-snapshots.ts";
import type { StepContext } from "./step-context.ts";

const lookMs = 500;

/** Ends a push that is no longer wanted: no failure that a user must hear of. */
export class WakeRequested extends Fault {}

export async function pushHibernated(
  context: StepContext,
  { record, signal }: Abortable & { readonly record: Vm | undefined },
): Promise<void> {
  await announceSaved(context, { signal });
  const over = new AbortController();
  const woken = new AbortController();
  const watching = watchForWake(context, { signal: AbortSignal.any([signal, over.signal]), woken });
  try {
    await push(context, hibernateTag, { record, signal: AbortSignal.any([signal, woken.signal]) });
  } catch (error) {
    if (woken.signal.aborted && !signal.aborted) throw woken.signal.reason;
    throw error;
  } finally {
    over.abort();
    await watching;
  }
}

/** Only where the VM stays exactly where it was saved. The generation says which request it answers. */
async function announceSaved({ tracked, canSavePaused }: StepContext, options: Abortable): Promise<void> {
  const generation = tracked.writer.pod.metadata.annotations?.[annotation.generation];
  if (canSavePaused && generation !== undefined)
    await tracked.writer.write({ [annotation.savedGeneration]: generation }, options);
}

/** The kubelet hands a changed pod over only when this step is done. */
async function watchForWake(
  { client, tracked, log }: StepContext,
  { signal, woken }: Abortable & { readonly woken: AbortController },
): Promise<void> {
  const { key, uid } = tracked;
  while (await sleep(lookMs, { signal }))
    try {
      const { metadata } = await client.get(pods, key, { signal });
      if (metadata.uid !== uid || metadata.deletionTimestamp !== undefined) return;
      if (readHibernate(metadata.annotations)) continue;
      log.info("machine is to wake; its push ends");
      woken.abort(new WakeRequested("unavailable", "the machine is to wake; its push was given up"));
      return;
    } catch (error) {
      if (signal.aborted || isFault(error, "notFound")) return;
      log.debug({ error: getErrorMessage(error) }, "pod not read during a push");
    }
}
