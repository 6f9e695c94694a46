/** The status of a SandboxClaim: its Sandbox's Ready, forwarded. Pure. */
import type { Sandbox, SandboxClaim, SandboxClaimStatus } from "@cocoon/contract/agent-sandbox";
import { withConditions } from "@cocoon/contract";
import { findCondition, isConditionTrue } from "@cocoon/core/conditions";
import type { CustomObject } from "../kinds.ts";
import { readSandboxObject } from "./settle.ts";

export interface ClaimProblem {
  readonly reason: string;
  readonly message: string;
}

interface StatusInput {
  readonly claim: SandboxClaim;
  readonly sandbox: CustomObject | undefined;
  readonly problem?: ClaimProblem | undefined;
  readonly now: Date;
}

export function computeClaimStatus(input: StatusInput): SandboxClaimStatus {
  const { claim, sandbox } = input;
  const found = sandbox && readSandboxObject(sandbox);
  const observedGeneration = claim.metadata.generation ?? 0;
  const finished = findCondition(found?.status?.conditions, "Finished");
  const podIPs = found?.status?.podIPs ?? [];
  const held = { name: found?.metadata.name ?? "", ...(podIPs.length > 0 ? { podIPs: [...podIPs] } : {}) };
  return {
    conditions: [...computeReady(input, found), ...(finished ? [{ ...finished, observedGeneration }] : [])],
    ...(found ? { sandbox: held } : {}),
  };
}

function computeReady(
  { claim, problem, now }: StatusInput,
  found: Sandbox | undefined,
): NonNullable<SandboxClaimStatus["conditions"]> {
  const observedGeneration = claim.metadata.generation ?? 0;
  const ready = findCondition(found?.status?.conditions, "Ready");
  if (ready && !problem && !isFromBefore(claim, found)) return [{ ...ready, observedGeneration }];
  const { reason, message } = problem ?? { reason: "SandboxNotReady", message: "Sandbox is not ready" };
  const kept = (claim.status?.conditions ?? []).filter(({ type }) => type === "Ready");
  return withConditions(kept, [{ type: "Ready", status: "False", reason, message, observedGeneration }], {
    now,
  });
}

/**
 * A member of a pool was Ready before the claim took it: that says nothing about the claim's variables, nor about a machine that
 * stood still. A claim that was Ready once stays so while its Sandbox follows a change.
 */
function isFromBefore({ status }: SandboxClaim, found: Sandbox | undefined): boolean {
  const ready = findCondition(found?.status?.conditions, "Ready");
  const isOlder = (ready?.observedGeneration ?? 0) < (found?.metadata.generation ?? 0);
  return ready?.status === "True" && isOlder && !isConditionTrue(status?.conditions, "Ready");
}

/** When the claim expires; undefined: never. */
export function getClaimExpiry({ spec, status }: SandboxClaim): number | undefined {
  const { shutdownTime, ttlSecondsAfterFinished } = spec.lifecycle ?? {};
  const finished = findCondition(status?.conditions, "Finished");
  const times = [
    ...(shutdownTime === undefined ? [] : [Date.parse(shutdownTime)]),
    ...(ttlSecondsAfterFinished === undefined || finished?.status !== "True"
      ? []
      : [Date.parse(finished.lastTransitionTime) + ttlSecondsAfterFinished * 1_000]),
  ];
  return times.length === 0 ? undefined : Math.min(...times);
}
