/** Tells when one object changes. */
import type { Abortable, Logger } from "@cocoon/core";
import type { KubeConnection } from "../client.ts";
import type { KubeObject, ObjectKey, ResourceType } from "../object.ts";
import { watch } from "../watch.ts";

export interface WatchedObject {
  readonly type: ResourceType<KubeObject>;
  readonly key: ObjectKey;
}

export interface WatchObjectOptions extends Abortable {
  readonly log: Logger;
  readonly notify: () => void;
}

/** Until the signal aborts. What changed is of no interest here: who is notified looks for himself. */
export async function watchObject(
  client: KubeConnection,
  { type, key }: WatchedObject,
  { signal, log, notify }: WatchObjectOptions,
): Promise<void> {
  const selection = { namespace: key.namespace, fieldSelector: `metadata.name=${key.name}` };
  for await (const event of watch(client, type, { ...selection, signal, log }))
    if (event.kind !== "relisting" && event.kind !== "listed") notify();
}
