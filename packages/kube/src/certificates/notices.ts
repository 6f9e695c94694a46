/** Notices that something may have changed. One that comes while no caller waits counts for the next wait. */
import { clockSleep, type Abortable, type Clock, type Logger } from "@cocoon/core";
import { watch } from "../cache/watch.ts";
import type { KubeConnection } from "../client/client.ts";
import type { KubeObject, ObjectKey, ResourceType } from "../object.ts";

export class Notices {
  #noticed = false;
  #wake: () => void = () => undefined;

  readonly notify = (): void => {
    this.#noticed = true;
    this.#wake();
  };

  /** Until the next notice, the time, or the signal; false in the last case. */
  async wait(ms: number, { clock, signal }: Abortable & { readonly clock: Clock }): Promise<boolean> {
    const waiting = new AbortController();
    const noticed = new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#noticed) this.#wake();
    await Promise.race([noticed, clockSleep(clock, ms, AbortSignal.any([signal, waiting.signal]))]);
    waiting.abort();
    this.#noticed = false;
    return !signal.aborted;
  }
}

export interface WatchedObject {
  readonly type: ResourceType<KubeObject>;
  readonly key: ObjectKey;
}

export interface WatchObjectOptions extends Abortable {
  readonly log: Logger;
  readonly notify: () => void;
}

/** Until the signal aborts. Notifies of changes without their content: the listener reads the object. */
export async function watchObject(
  client: KubeConnection,
  { type, key }: WatchedObject,
  { signal, log, notify }: WatchObjectOptions,
): Promise<void> {
  const selection = { namespace: key.namespace, fieldSelector: `metadata.name=${key.name}` };
  for await (const event of watch(client, type, { ...selection, signal, log }))
    if (event.kind !== "relisting" && event.kind !== "listed") notify();
}
