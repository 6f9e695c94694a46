/**
 * The oldest store: ConfigMap `cocoon-vm-affinity` in each namespace, by machine name `node:<node>,pod:<pod>`. Taken
 * over once; the object stays and is marked, so that a rollback finds it.
 */
import { defaultPool, isDnsSubdomain, shardAnnotation, findVmNameProblem } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import { configMaps, type ConfigMap } from "@cocoon/kube";
import type { Model } from "../model.ts";
import { numberedPrefix, formatSlotPrefix, formatSlotVmName, type Entry } from "../store/entry.ts";
import type { ReaperOptions } from "./reaper.ts";

type ImportOptions = Pick<ReaperOptions, "client" | "reservations" | "findNodePool" | "log"> &
  Pick<Model, "workloads">;

const olderStoreName = "cocoon-vm-affinity";

export async function importOlderStores(options: ImportOptions, { signal }: Abortable): Promise<void> {
  const { client } = options;
  const fieldSelector = `metadata.name=${olderStoreName}`;
  for await (const page of client.pages(configMaps, { fieldSelector, signal }))
    for (const object of page.items)
      if (object.metadata.annotations?.[shardAnnotation.imported] !== "true")
        await importOne(object, options, { signal });
}

async function importOne(object: ConfigMap, options: ImportOptions, { signal }: Abortable): Promise<void> {
  const { client, reservations, log } = options;
  const { namespace = "", name = "" } = object.metadata;
  let taken = 0;
  for (const [vmName, text] of Object.entries(object.data ?? {})) {
    const entry = readOlderEntry({ namespace, vmName, text }, options);
    if (entry && (await reservations.adopt(entry, { signal }))) taken += 1;
  }
  const body = { metadata: { annotations: { [shardAnnotation.imported]: "true" } } };
  await client.patch(configMaps, { key: { namespace, name }, patch: { type: "merge", body } }, { signal });
  log.info({ namespace, entries: taken }, "older store of reservations taken over");
}

const olderValue = /^node:([^,]*),pod:(.*)$/;

function readOlderEntry(
  { namespace, vmName, text }: { readonly namespace: string; readonly vmName: string; readonly text: string },
  { workloads, findNodePool }: ImportOptions,
): Entry | undefined {
  const [, node = "", pod = ""] = olderValue.exec(text) ?? [];
  if (!isDnsSubdomain(pod) || findVmNameProblem(vmName) !== undefined) return undefined;
  const common = {
    pool: findNodePool(node) || defaultPool,
    namespace,
    vmName,
    pod,
    node,
    updatedAt: new Date().toISOString(),
    claim: "",
    podUid: "",
    goneSince: "",
    lastGone: "",
  };
  const prefix = numberedPrefix(vmName);
  const deployment = prefix?.slice(`vk-${namespace}-`.length, -1) ?? "";
  const owner = { kind: "Deployment", name: deployment, uid: "" };
  const isSlot = prefix !== undefined && prefix === formatSlotPrefix({ namespace, owner });
  if (isSlot && workloads.find("deployments", namespace, deployment))
    return { ...common, deployment, slot: Number(vmName.slice(prefix.length)), owner };
  const bare = { kind: "Pod", name: pod, uid: "" };
  if (vmName !== formatSlotVmName({ namespace, owner: bare, form: "pod" }, pod)) return undefined;
  return { ...common, deployment: "", slot: 0, owner: bare };
}
