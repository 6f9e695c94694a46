/** Looks at everything that the plan for one machine needs. Whatever cannot be asked stops the step. */
import { isFault, type Abortable } from "@cocoon/core";
import { nodes, type KubeClient } from "@cocoon/kube";
import type { Vm, VmRuntime } from "@cocoon/vm";
import type { Machine } from "../machine.ts";
import { findSnapshot, type Snapshots } from "../snapshots.ts";
import { isLive, isSettledAsleep, type Seen, type SleepingSnapshot } from "./plan.ts";

export interface Sources {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  /** Undefined when no registry is configured. */
  readonly snapshots: Snapshots | undefined;
  readonly node: string;
  /** Whether a save can leave a VM standing still. */
  readonly freezes: boolean;
  /** The last copy that was made here of the machine in question. */
  readonly saved: { id: string | undefined };
}

export async function observeMachine(
  sources: Sources,
  machine: Machine,
  options: Abortable,
): Promise<Seen & { readonly record: Vm | undefined }> {
  const { runtime, snapshots, node } = sources;
  const { vmName, managed } = machine.vm;
  const record = managed ? await findVm(runtime, vmName, options) : undefined;
  const local = managed ? await findSnapshot(runtime, vmName, options) : undefined;
  const asks = snapshots !== undefined && managed && !isKnown(machine, record);
  const tag = asks ? await snapshots.sleeping(vmName, options) : "unasked";
  const slept = tag !== undefined && tag !== "unasked" ? tag : undefined;
  return {
    machine,
    node,
    record,
    vm: record && { id: record.id, state: record.state },
    local: local && { id: local.id, vmId: local.vmId },
    tag,
    sealedDigest: slept && snapshots ? await snapshots.sealedDigest(vmName, options) : undefined,
    fromNodeFenced: slept ? await isFromNodeFenced(sources, slept, options) : false,
    hasRegistry: snapshots !== undefined,
    freezes: sources.freezes,
    savedNow: sources.saved.id,
  };
}

/**
 * A machine that lives, or whose sleep was published, is settled without the registry: no call in steady state. One whose
 * sleep was recorded and whose VM died before it was removed has its memory there.
 */
function isKnown(machine: Machine, record: Vm | undefined): boolean {
  if (!record) return isSettledAsleep(machine);
  return !machine.sleep && (isLive(record) || machine.recordedDigest === "");
}

/** By exact name. */
export async function findVm(
  runtime: VmRuntime,
  name: string,
  { signal }: Abortable,
): Promise<Vm | undefined> {
  try {
    const found = await runtime.inspect(name, { signal });
    return found.name === name ? found : undefined;
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}

/** Its Node object is gone, or somebody vouches with the out-of-service taint that nothing runs there. */
async function isFromNodeFenced(
  { client, node }: Sources,
  { fromNode }: SleepingSnapshot,
  { signal }: Abortable,
): Promise<boolean> {
  if (fromNode === "" || fromNode === node) return false;
  try {
    const found = await client.get(nodes, { name: fromNode }, { signal });
    return found.spec?.taints?.some((taint) => taint.key === "node.kubernetes.io/out-of-service") ?? false;
  } catch (error) {
    if (isFault(error, "notFound")) return true;
    throw error;
  }
}
