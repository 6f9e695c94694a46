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

/** The role comes from ownership and an exact slot. An unknown role is not main; an unknown policy keeps the snapshot. */
export function shouldSnapshot(policy: string, role: Role | undefined): boolean {
  if (policy === "never") return false;
  return policy === "main-only" ? role === "main" : true;
}
