/**
 * Whether a machine leaves a snapshot `latest` when its pod is deleted. The hibernate snapshot ignores the policy.
 *
 *   policy             main   sub-agent  toolbox
 *   always (or none)   yes    yes        yes
 *   main-only          yes    no         no
 *   never              no     no         no
 */
import type { Role } from "./vm-name.ts";

export const snapshotPolicies = ["always", "main-only", "never"] as const;
export type SnapshotPolicy = (typeof snapshotPolicies)[number];

/**
 * The role must come from ownership and an exact slot, never from how a name ends. A machine whose role is unknown is
 * not main; a policy text that is none of ours keeps the snapshot, because losing one is worse than keeping one.
 */
export function shouldSnapshot(policy: string, role: Role | undefined): boolean {
  if (policy === "never") return false;
  return policy === "main-only" ? role === "main" : true;
}
