/**
 * ConfigMap `cocoon-vm-snapshots`: machines of a namespace that sleep, by VM name. Controllers of the legacy API wait
 * for the entry to come (asleep) and to go (awake). Others do not need it, so it is kept for legacy pods unless asked for.
 */
import { legacyAnnotation } from "@cocoon/contract";
import { isFault, type Abortable } from "@cocoon/core";
import { configMaps } from "@cocoon/kube";
import { readMachine } from "../machine.ts";
import type { StepContext } from "./step-context.ts";

const name = "cocoon-vm-snapshots";

function isListed({ writer, snapshotConfigMap }: StepContext): boolean {
  const { annotations = {} } = writer.pod.metadata;
  const legacy = Object.values(legacyAnnotation).some((key) => annotations[key] !== undefined);
  return snapshotConfigMap === "all" || legacy;
}

export async function listAsleep(context: StepContext, digest: string, options: Abortable): Promise<void> {
  if (!isListed(context)) return;
  const { client, writer } = context;
  const { namespace = "default" } = writer.pod.metadata;
  const data = { [readMachine(writer.pod).vm.vmName]: digest };
  const key = { namespace, name };
  try {
    await client.patch(configMaps, { key, patch: { type: "merge", body: { data } } }, options);
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
    try {
      await client.create(configMaps, { metadata: key, data }, options);
    } catch (second) {
      if (!isFault(second, "alreadyExists")) throw second;
      await client.patch(configMaps, { key, patch: { type: "merge", body: { data } } }, options);
    }
  }
}

/** Gone already is as good. */
export async function unlistAwake(context: StepContext, options: Abortable): Promise<void> {
  if (!isListed(context)) return;
  const { client, writer } = context;
  const { namespace = "default" } = writer.pod.metadata;
  const data = { [readMachine(writer.pod).vm.vmName]: null };
  try {
    await client.patch(
      configMaps,
      { key: { namespace, name }, patch: { type: "merge", body: { data } } },
      options,
    );
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
}
