/**
 * Whose machine a name is. The VM name is an annotation, and annotations can be edited: before anything is adopted, restored,
 * forked or pushed under it, it must be a name that this pod's namespace and owner can have.
 */
import { annotation, isSandboxVmName, nodeLabel, ownerSet, podVmName, vmName } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { readMachine } from "@cocoon/machine";

/** Throws `forbidden`. Static machines belong to other systems and have any name. */
export function assertIdentity(pod: Pod): void {
  const { namespace, vm } = readMachine(pod);
  if (!vm.managed) return;
  const set = ownerSet({ metadata: pod.metadata });
  const prefix = set === undefined ? podVmName(namespace, "") : vmName({ namespace, set }, "");
  const legacy = set !== undefined && vm.vmName.startsWith(podVmName(namespace, ""));
  if (vm.vmName.startsWith(prefix) && vm.vmName.length > prefix.length) return;
  // The Sandbox that it is named after may be gone: then it is a bare pod's, or another Sandbox's, under the same name.
  if (isSandboxVmName(namespace, vm.vmName)) return;
  if (legacy && readMachine(pod).role === "toolbox") return; // older toolboxes are named without their set
  const owner = set === undefined ? `namespace ${namespace}` : `set ${namespace}/${set}`;
  throw new Fault(
    "forbidden",
    `${annotation.vmName}: "${vm.vmName.slice(0, 200)}" is not a name of ${owner}; machines of it are named ${prefix}…`,
  );
}

/** Snapshots move between hosts of one CPU class only; a pod that selects another class must not start here. */
export function assertCpuClass(pod: Pod, ours: string): void {
  const spec = pod.spec as { readonly nodeSelector?: Readonly<Record<string, string>> };
  const wanted = spec.nodeSelector?.[nodeLabel.snapshotCpuClass];
  if (wanted === undefined || wanted === ours) return;
  const have = ours === "" ? "this node has none" : `this node has "${ours}"`;
  throw new Fault(
    "preconditionFailed",
    `the pod needs snapshot CPU class "${wanted}", but ${have} (VK_SNAPSHOT_CPU_CLASS)`,
  );
}

/** A pod with the name of another namespace's machine never had one here: there is nothing of its own to end. */
export function isOwnName(pod: Pod): boolean {
  try {
    assertIdentity(pod);
    return true;
  } catch (error) {
    if (isFault(error, "forbidden")) return false;
    throw error;
  }
}
