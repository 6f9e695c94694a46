/** The status of a SandboxClaim: its Sandbox's Ready, forwarded. Pure. */
import { type SandboxClaim, type SandboxClaimStatus } from "@cocoon/contract/agent-sandbox";
import { withConditions } from "@cocoon/contract";
import { findCondition } from "@cocoon/core/conditions";
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

export function computeClaimStatus({ claim, sandbox, problem, now }: StatusInput): SandboxClaimStatus {
  const observedGeneration = claim.metadata.generation ?? 0;
  const found = sandbox && readSandboxObject(sandbox);
  const ready = findCondition(found?.status?.conditions, "Ready");
  const finished = findCondition(found?.status?.conditions, "Finished");
  const kept = (claim.status?.conditions ?? []).filter(({ type }) => type === "Ready");
  const own = (reason: string, message: string) =>
    withConditions(kept, [{ type: "Ready", status: "False", reason, message, observedGeneration }], { now });
  const forwarded = ready
    ? [{ ...ready, observedGeneration }]
    : own("SandboxNotReady", "Sandbox is not ready");
  const conditions = problem ? own(problem.reason, problem.message) : forwarded;
  const podIPs = found?.status?.podIPs ?? [];
  return {
    conditions: [...conditions, ...(finished ? [{ ...finished, observedGeneration }] : [])],
    ...(found
      ? {
          sandbox: { name: found.metadata.name ?? "", ...(podIPs.length > 0 ? { podIPs: [...podIPs] } : {}) },
        }
      : {}),
  };
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
