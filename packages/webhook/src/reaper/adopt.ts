/** Machines whose pods are there although no reservation says so: the store was lost, or they are older than it. */
import { defaultPool } from "@cocoon/contract";
import { getErrorMessage, type Abortable } from "@cocoon/core";
import type { Model } from "../model.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import {
  numberedPrefix,
  formatSlotPrefix,
  formatSlotVmName,
  type Entry,
  type Owner,
} from "../store/entry.ts";
import type { ReaperOptions } from "./reaper.ts";

type AdoptOptions = Pick<ReaperOptions, "reservations" | "findNodePool" | "log"> &
  Pick<Model, "reserved" | "pods">;

/** Gives every such pod its reservation back; returns how many names more than one pod carries. */
export async function adoptPods(options: AdoptOptions, { signal }: Abortable): Promise<number> {
  const { reserved, pods, reservations, log } = options;
  let duplicates = 0;
  for (const [vmName, holders] of pods.vmNames()) {
    const [pod, ...others] = holders;
    if (others.some((other) => !other.finished)) duplicates += 1;
    if (!pod || pod.owner?.kind === "CocoonSet" || pod.claim === "") continue;
    const [held] = reserved.holding(vmName);
    const entry = held ? undefined : buildEntry(pod, options);
    if (!entry) continue;
    try {
      await reservations.adopt(entry, { signal });
    } catch (error) {
      if (!signal.aborted)
        log.warn({ vm: vmName, error: getErrorMessage(error) }, "machine not entered in the store");
    }
  }
  return duplicates;
}

function buildEntry(pod: SlimPod, { findNodePool }: AdoptOptions): Entry | undefined {
  const { namespace, name, uid } = pod.metadata;
  const owner = findOwner(pod);
  const slot = parseOwnSlot(pod, owner);
  if (slot === undefined && pod.vmName !== formatSlotVmName({ namespace, owner, form: "pod" }, name))
    return undefined;
  return {
    pool: findNodePool(pod.nodeName) || defaultPool,
    namespace,
    deployment: slot === undefined ? "" : owner.name,
    slot: slot ?? 0,
    vmName: pod.vmName,
    pod: name,
    node: pod.nodeName,
    updatedAt: new Date().toISOString(),
    owner: slot === undefined && pod.owner === undefined ? { kind: "Pod", name, uid: "" } : owner,
    claim: pod.claim,
    podUid: uid,
    goneSince: "",
    lastGone: "",
  };
}

function findOwner({ owner, metadata, vmName }: SlimPod): Owner {
  if (!owner) return { kind: "Pod", name: metadata.name, uid: "" };
  const dash = owner.name.lastIndexOf("-");
  const deployment = owner.name.slice(0, dash);
  const isDeployment =
    owner.kind === "ReplicaSet" &&
    dash > 0 &&
    numberedPrefix(vmName) ===
      formatSlotPrefix({ namespace: metadata.namespace, owner: { ...owner, name: deployment } });
  return isDeployment ? { kind: "Deployment", name: deployment, uid: "" } : owner;
}

function parseOwnSlot({ vmName, metadata: { namespace } }: SlimPod, owner: Owner): number | undefined {
  if (owner.kind === "StatefulSet" || owner.kind === "Pod") return undefined;
  const prefix = formatSlotPrefix({ namespace, owner });
  return numberedPrefix(vmName) === prefix ? Number(vmName.slice(prefix.length)) : undefined;
}
