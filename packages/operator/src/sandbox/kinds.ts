/** The kinds of agent-sandbox, and what is made for them, as the API server serves them. */
import { podSnapshotGroup, sandboxExtensionsGroup, sandboxVersion } from "@cocoon/contract/agent-sandbox";
import { resourceType, type KubeObject } from "@cocoon/kube";
import type { CustomObject } from "../kinds.ts";

const extension = { group: sandboxExtensionsGroup, version: sandboxVersion };

export const sandboxClaims = resourceType<CustomObject>({ ...extension, kind: "SandboxClaim" });
export const sandboxTemplates = resourceType<CustomObject>({ ...extension, kind: "SandboxTemplate" });
export const sandboxWarmPools = resourceType<CustomObject>({ ...extension, kind: "SandboxWarmPool" });
export const podSnapshots = resourceType<CustomObject>({
  group: podSnapshotGroup,
  version: "v1",
  kind: "PodSnapshot",
});
export const podSnapshotTriggers = resourceType<CustomObject>({
  group: podSnapshotGroup,
  version: "v1",
  kind: "PodSnapshotManualTrigger",
});

export interface NetworkPolicy extends KubeObject {
  readonly spec?: unknown;
}

export const networkPolicies = resourceType<NetworkPolicy>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
});
