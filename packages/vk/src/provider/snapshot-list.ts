/**
 * ConfigMap `cocoon-vm-snapshots`: hibernated machines of a namespace, VM name to the full reference of the snapshot. Controllers
 * of the legacy API wait for the entry to appear (asleep) and to disappear (the wake started). Others do not need it, so it is
 * kept for legacy pods unless configured. The list is information, not state: it is bounded, and a list that cannot be written
 * keeps no machine from hibernating or waking.
 */
import { snapshotConfigMapName } from "@cocoon/contract/legacy";
import { isFault, getErrorMessage, type Abortable, ignoreFault } from "@cocoon/core";
import { configMaps, pods } from "@cocoon/kube";
import { readMachine } from "@cocoon/machine";
import { readPodMachine } from "../pod-machine.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";

/** An entry has at most some 330 bytes; a ConfigMap holds 1 MiB. */
const maxEntries = 2_000;

type Entries = Readonly<Record<string, string | null>>;

export function isListed({ tracked, snapshotConfigMap }: StepContext): boolean {
  return snapshotConfigMap === "all" || tracked.writer.isLegacy;
}

export async function listHibernated(context: StepContext, options: Abortable): Promise<void> {
  const { tracked } = context;
  if (!isListed(context)) return;
  const { vmName } = readPodMachine(tracked.writer.pod).vm;
  const reference = requireSnapshots(context).formatReference(vmName);
  await orReport(context, options, async () => {
    const pruned = await findGone(context, options);
    await write(context, { ...pruned, [vmName]: reference }, options);
  });
}

/** No entry is success. The key that listed the machine may be gone by now, so every machine that wakes is looked for. */
export async function unlistHibernated(context: StepContext, options: Abortable): Promise<void> {
  const data = { [readPodMachine(context.tracked.writer.pod).vm.vmName]: null };
  await orReport(context, options, async () => {
    await ignoreFault("notFound", patch(context, data, options));
  });
}

async function orReport(
  { log, emit }: StepContext,
  { signal }: Abortable,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `ConfigMap ${snapshotConfigMapName} does not show the machine as it is: ${getErrorMessage(error)}`;
    emit({ type: "Warning", reason: "SnapshotListFailed", message });
    log.warn({ error: getErrorMessage(error) }, "list of hibernated machines not written");
  }
}

/** When the list is full: entries of machines without a pod, to be removed. */
async function findGone(context: StepContext, { signal }: Abortable): Promise<Entries> {
  const { client, tracked } = context;
  const namespace = readNamespace(context);
  const { vmName } = readPodMachine(tracked.writer.pod).vm;
  let listed: readonly string[];
  try {
    const map = await client.get(configMaps, { namespace, name: snapshotConfigMapName }, { signal });
    listed = Object.keys(map.data ?? {}).filter((each) => each !== vmName);
  } catch (error) {
    if (isFault(error, "notFound")) return {};
    throw error;
  }
  if (listed.length < maxEntries) return {};
  const present = new Set<string>();
  for await (const page of client.pages(pods, { namespace, limit: 500, signal }))
    for (const pod of page.items) present.add(readMachine(pod).vm.vmName);
  const gone = listed.filter((each) => !present.has(each));
  // All of them have a pod: the first ones give way, because a list that is full would reject every further entry.
  const removed = gone.length > 0 ? gone : listed.slice(0, listed.length - maxEntries + 1);
  return Object.fromEntries(removed.map((each) => [each, null]));
}

async function write(context: StepContext, entries: Entries, options: Abortable): Promise<void> {
  try {
    await patch(context, entries, options);
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
    const data = Object.fromEntries(
      Object.entries(entries).filter((entry): entry is [string, string] => entry[1] !== null),
    );
    const metadata = { namespace: readNamespace(context), name: snapshotConfigMapName };
    try {
      await context.client.create(configMaps, { metadata, data }, options);
    } catch (second) {
      if (!isFault(second, "alreadyExists")) throw second;
      await patch(context, entries, options);
    }
  }
}

async function patch(context: StepContext, data: Entries, options: Abortable): Promise<void> {
  const key = { namespace: readNamespace(context), name: snapshotConfigMapName };
  await context.client.patch(configMaps, { key, patch: { type: "merge", body: { data } } }, options);
}

function readNamespace({ tracked }: StepContext): string {
  return tracked.writer.pod.metadata.namespace ?? "default";
}
