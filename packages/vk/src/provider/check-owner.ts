/** Whether this node may take a hibernated machine, and the refusals when it may not. Pure. */
import type { HibernatedSnapshot } from "@cocoon/machine";
import type { PodMachine } from "../pod-machine.ts";
import type { Observed } from "./observed.ts";
import type { Refusal, Step } from "./step.ts";

/**
 * Whether a hibernated machine may be taken by this node. A claim of another node excludes it until that node is fenced. Else
 * its old VM must be proven removed: this node made the snapshot and has no VM; or the old node sealed it; or the pod carries
 * the digest, which is written only of a hibernated machine; or the operator marked the pod; or the old node is fenced.
 */
export function checkOwner(observed: Observed, snapshot: HibernatedSnapshot): Step | undefined {
  const { machine, node, fencedNodes } = observed;
  if (snapshot.namespace !== "" && snapshot.namespace !== machine.namespace)
    return {
      kind: "refuse",
      reason: "SnapshotOwnedByOther",
      message: `snapshot ${snapshot.digest} of ${machine.vm.vmName} belongs to namespace ${snapshot.namespace}, not to ${machine.namespace}; choose another name`,
    };
  const claim = checkClaims(observed, snapshot);
  if (claim) return claim;
  const proven =
    snapshot.fromNode === "" ||
    snapshot.fromNode === node ||
    snapshot.sealed ||
    snapshot.claims.includes(node) ||
    machine.recordedDigest === snapshot.digest ||
    machine.restoreMarked ||
    fencedNodes.includes(snapshot.fromNode);
  if (proven) return undefined;
  return refuseUnproven(
    `machine ${machine.vm.vmName} was hibernated on node ${snapshot.fromNode}, which has not confirmed that its VM is gone; waiting for it, or fence it with the out-of-service taint`,
  );
}

function checkClaims(
  { machine, node, fencedNodes }: Observed,
  snapshot: HibernatedSnapshot,
): Step | undefined {
  const claimant = snapshot.claims.find((each) => each !== node);
  if (claimant === undefined) return undefined;
  // Two nodes claimed it and both ended before they could check: while the seal is there, neither has restored it.
  if (snapshot.sealed && snapshot.claims.includes(node)) return { kind: "removeClaim", node };
  if (fencedNodes.includes(claimant)) return { kind: "removeClaim", node: claimant };
  return refuseUnproven(
    `machine ${machine.vm.vmName} is being restored on node ${claimant}; waiting for it, or fence it with the out-of-service taint`,
  );
}

function refuseUnproven(message: string): Refusal {
  return { kind: "refuse", waits: true, reason: "HibernateEvidenceUnavailable", message };
}

/** Its pod was force-deleted or its node was lost: the VM may still run there. */
export function refuseHeld({ vm }: PodMachine, holder: string): Refusal {
  return refuseUnproven(
    `machine ${vm.vmName} was last on node ${holder}, which has not confirmed that its VM is gone; waiting for it, or fence it with the out-of-service taint`,
  );
}

export function refuseLost({ vm, recordedDigest }: PodMachine): Refusal {
  return {
    kind: "refuse",
    reason: "HibernateEvidenceFailed",
    message: `${vm.vmName} must be hibernated in ${recordedDigest || "the registry"}, but tag hibernate is not there; nothing is booted in its place`,
  };
}

export function refuseVmGone({ vm, runtime }: PodMachine): Refusal {
  return {
    kind: "refuse",
    reason: "VMGone",
    message: `VM ${vm.vmName} (${runtime.vmId || "id not recorded"}) is not on this node any more, and the registry has no snapshot that it is hibernated in`,
  };
}
