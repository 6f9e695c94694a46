/** Tells people that a pod waits for its node: on the pod's owner, because the pod has no name yet. */
import type { EventRecorder } from "@cocoon/kube/controller";
import type { Granted } from "../store/claim-request.ts";
import type { MachinePod } from "./mutate.ts";

export function announceGrant(
  machine: MachinePod,
  { entry, placement }: Granted,
  events: EventRecorder,
): void {
  if (placement.warning === undefined) return;
  const { namespace, name } = machine.request;
  const owner = machine.pod.metadata.ownerReferences?.find(({ controller }) => controller === true);
  const regarding = owner
    ? { apiVersion: owner.apiVersion, kind: owner.kind, namespace, name: owner.name, uid: owner.uid }
    : { apiVersion: "v1", kind: "Pod", namespace, name: machine.pod.metadata.name || name || entry.vmName };
  events.record(regarding, { type: "Warning", reason: "WaitsForNode", message: placement.warning });
}
