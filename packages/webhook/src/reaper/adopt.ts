/** Machines whose pods are there although no reservation says so: the store was lost, or they are older than it. */
import { defaultPool } from "@cocoon/contract";
import { messageOf, type Abortable, type Logger } from "@cocoon/core";
import type { PodIndex } from "../pods/pod-index.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import { numberedPrefix, slotPrefixOf, vmNameOf, type Entry, type Owner } from "../store/entry.ts";
import type { Ledger } from "../store/ledger.ts";
import type { Reservations } from "../store/reservations.ts";

export interface AdoptOptions {
  readonly ledger: Ledger;
  readonly pods: PodIndex;
  readonly reservations: Reservations;
  readonly poolOfNode: (node: string) => string;
  readonly log: Logger;
}

/** Gives every such pod its reservation back; returns how many names more than one pod carries. */
export async function adoptPods(options: AdoptOptions, { signal }: Abortable): Promise<number> {
  const { ledger, pods, reservations, log } = options;
  let duplicates = 0;
  for (const [vmName, holders] of pods.vmNames()) {
    const [pod, ...others] = holders;
    if (others.some((other) => !other.finished)) duplicates += 1;
    if (!pod || pod.owner?.kind === "CocoonSet" || pod.claim === "") continue;
    const [held] = ledger.holding(vmName);
    const entry = held ? undefined : entryOf(pod, options);
    if (!entry) continue;
    try {
      await reservations.adopt(entry, { signal });
    } catch (error) {
      if (!signal.aborted)
        log.warn({ vm: vmName, error: messageOf(error) }, "machine not entered in the store");
    }
  }
  return duplicates;
}

function entryOf(pod: SlimPod, { poolOfNode }: AdoptOptions): Entry | undefined {
  const { namespace, name, uid } = pod.metadata;
  const owner = ownerOf(pod);
  const slot = slotOf(pod, owner);
  if (slot === undefined && pod.vmName !== vmNameOf({ namespace, owner, form: "pod" }, name))
    return undefined;
  return {
    pool: poolOfNode(pod.nodeName) || defaultPool,
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

function ownerOf({ owner, metadata, vmName }: SlimPod): Owner {
  if (!owner) return { kind: "Pod", name: metadata.name, uid: "" };
  const dash = owner.name.lastIndexOf("-");
  const deployment = owner.name.slice(0, dash);
  const isDeployment =
    owner.kind === "ReplicaSet" &&
    dash > 0 &&
    numberedPrefix(vmName) ===
      slotPrefixOf({ namespace: metadata.namespace, owner: { ...owner, name: deployment } });
  return isDeployment ? { kind: "Deployment", name: deployment, uid: "" } : owner;
}

function slotOf({ vmName, metadata: { namespace } }: SlimPod, owner: Owner): number | undefined {
  if (owner.kind === "StatefulSet" || owner.kind === "Pod") return undefined;
  const prefix = slotPrefixOf({ namespace, owner });
  return numberedPrefix(vmName) === prefix ? Number(vmName.slice(prefix.length)) : undefined;
}
