/** agent-sandbox: the kinds of kubernetes-sigs/agent-sandbox that cocoon-operator can serve, with their keys and readers. */
export type { PodTemplateInput } from "./blueprint.ts";
export {
  readSandboxClaim,
  readSandboxTemplate,
  readSandboxWarmPool,
  type SandboxClaim,
  type SandboxClaimStatus,
  type SandboxTemplate,
  type SandboxWarmPool,
  type SandboxWarmPoolStatus,
} from "./extensions.ts";
export {
  isReservedSandboxKey,
  podSnapshotAnnotation,
  podSnapshotGroup,
  sandboxAnnotation,
  sandboxExtensionsGroup,
  sandboxGroup,
  sandboxHash,
  sandboxLabel,
  sandboxVersion,
} from "./keys.ts";
export {
  readPodSnapshot,
  readPodSnapshotTrigger,
  type PodSnapshot,
  type PodSnapshotTrigger,
} from "./pod-snapshot.ts";
export { readSandbox, type Sandbox, type SandboxSpec, type SandboxStatus } from "./sandbox.ts";
