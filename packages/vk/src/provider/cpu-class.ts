/** Snapshots move between hosts of one CPU class only; a pod that asks for another class must not start here. */
import { nodeLabel } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";

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
