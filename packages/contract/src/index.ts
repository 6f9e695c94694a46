/**
 * contract: every word that two parts must agree on. Pure and browser-safe: no input or output, no clock, no environment. The
 * older API is under `/legacy`, CustomResourceDefinitions under `/crd`, session cookies under `/session`.
 */
export {
  findSandboxOwner,
  isSandboxVmName,
  podSnapshotFinalizer,
  readSandboxMachine,
  sandboxFinalizer,
  sandboxKind,
  sandboxMachineAnnotation,
  sandboxNodeAnnotation,
  sandboxVmName,
  type SandboxReference,
} from "./agent-sandbox/owner.ts";
export { annotationPatch, readFlag, readText } from "./annotations.ts";
export {
  cloudImageDisk,
  readCloudImageManifest,
  manifestSchema,
  type Descriptor,
  type Manifest,
} from "./manifest.ts";
export { readCocoonSet, readCocoonSetSpec, readDeletionPolicy, type CocoonSet } from "./cocoonset.ts";
export { hibernatePolicies, type CocoonSetSpecInput } from "./cocoonset-spec.ts";
export {
  addressCondition,
  setConditions,
  setPhases,
  subAgentSelector,
  type AgentStatus,
  type CocoonSetStatus,
  type SetPhase,
  type ToolboxStatus,
} from "./cocoonset-status.ts";
export { findCondition } from "@cocoon/core/conditions";
export { withConditions, type ConditionReport } from "./conditions.ts";
export {
  chooseConnectionType,
  backends,
  connectionTypes,
  guestSystems,
  type ConnectionType,
} from "./vm-options.ts";
export {
  extendDeleteList,
  readDeleteList,
  writeDeleteList,
  readRebuildHistory,
  writeRebuildHistory,
  type Rebuilds,
} from "./set-annotations.ts";
export {
  readGeneration,
  readHibernate,
  readKeepSnapshotOnDelete,
  readRestoreFromHibernate,
  hasReached,
  isLifecycleState,
  lifecyclePatch,
  mayReplace,
  readLifecycle,
  type LifecycleState,
  type LifecycleStatus,
} from "./lifecycle.ts";
export {
  hibernationCondition,
  hibernationPhases,
  getDesiredPhase,
  readCocoonHibernation,
  restartsPhaseClock,
  type CocoonHibernation,
  type CocoonHibernationSpec,
  type CocoonHibernationStatus,
  type HibernationPhase,
  type HibernationAction,
} from "./hibernation.ts";
export {
  defaultTag,
  formatImageReference,
  isDigest,
  isImageUrl,
  isRepository,
  isTag,
  tryParseImageReference,
  tryParseRelativeReference,
  type RegistryReference,
  type RelativeReference,
} from "./image-reference.ts";
export {
  annotation,
  apiGroup,
  apiVersion,
  finalizer,
  gatewayKey,
  hibernationAnnotation,
  hostTaint,
  label,
  legacyAnnotation,
  legacyApiGroup,
  legacyApiVersion,
  legacyLabel,
  machineContainer,
  nodeAnnotation,
  nodeLabel,
  setAnnotation,
  shardAnnotation,
  systemNamespace,
  workloadAnnotation,
} from "./keys.ts";
export {
  readMachineLabels,
  isContainerRunning,
  isMachinePod,
  isPodReady,
  isPodTerminal,
  isWindowsPod,
  ownerSet,
  getPodRole,
  defaultPool,
  readPool,
  type PodLike,
} from "./pod-state.ts";
export { readMachineState, type MachineState } from "./machine-state.ts";
export { agentModes, type AgentSpec, type ToolboxSpec } from "./machine-spec.ts";
export {
  classifyManifest,
  emptyConfig,
  isDiskType,
  manifestAnnotation,
  mediaType,
  snapshotLayerType,
  zstdSuffix,
  type ArtifactKind,
} from "./media-types.ts";
export {
  buildSetClaim,
  listCollisions,
  findNameProblems,
  findVmNameProblem,
  type NameClaim,
} from "./name-claims.ts";
export { findDnsLabelProblem, isDnsLabel, isDnsSubdomain } from "./rfc1123.ts";
export {
  assemblePackedSnapshot,
  assembleSnapshot,
  maxChunksPerFile,
  maxSnapshotConfigBytes,
  readSnapshotConfig,
  readSnapshotManifest,
  snapshotArtifactType,
  type SnapshotConfig,
  type SnapshotFile,
  type SnapshotPart,
} from "./snapshot-manifest.ts";
export {
  configFromEnvelope,
  envelopeFromConfig,
  formatSnapshotEnvelope,
  readSnapshotEnvelope,
  type SnapshotEnvelope,
} from "./snapshot-envelope.ts";
export { screenCommand, wantsScreen } from "./screen.ts";
export { grants, readSnapshotGrant, type CocoonSnapshotGrant } from "./snapshot-grant.ts";
export { shouldSnapshot, snapshotPolicies } from "./snapshot-policy.ts";
export {
  anchorTag,
  claimTag,
  hibernateTag,
  latestTag,
  readTagPurpose,
  releasedTag,
  restoredTag,
  sealTag,
  tryReadClaimTag,
  tryReadReleasedTag,
  type TagPurpose,
  podSnapshotTag,
  tryReadPodSnapshotTag,
} from "./tags.ts";
export {
  maxSlot,
  podName,
  podVmName,
  getSlotRole,
  findSlot,
  tryParseSlot,
  vmName,
  type SetKey,
} from "./vm-name.ts";
export { clearedVmRuntime, readVmRuntime, writeVmRuntime, type VmRuntime } from "./vm-runtime.ts";
export {
  completeVmSpec,
  readVmSpec,
  buildAgentVmSpec,
  buildToolboxVmSpec,
  writeVmSpec,
  type VmSpec,
} from "./vm-spec.ts";
