/**
 * contract: every word that two parts must agree on. Custom resources with their schemas, defaults and phases; the
 * metadata keys of pods and sets with typed readers and writers; names of pods and machines; snapshot policy and tags;
 * references and manifests of the registry.
 *
 * Everything is pure and runs in a browser: no input or output, no clock, no environment. Kubernetes objects are
 * taken and returned as plain data; talking to the API server is the business of `kube`. The older API is under
 * `/legacy`, CustomResourceDefinitions under `/crd`, session cookies under `/session`.
 */
export {
  annotationPatch,
  readFlag,
  readText,
  type AnnotationPatch,
  type Annotations,
  type WriteOptions,
} from "./annotations.ts";
export { cloudImageDisk, readCloudImageManifest } from "./cloud-image-manifest.ts";
export {
  readCocoonSet,
  readCocoonSetSpec,
  readDeletionWishes,
  type CocoonSet,
  type DeletionWishes,
} from "./cocoonset.ts";
export { mainRebuilds, rolloutStrategies, setDeletionPolicies } from "./cocoonset-additions.ts";
export {
  hibernatePolicies,
  type CocoonSetSpec,
  type CocoonSetSpecInput,
  type HibernatePolicy,
} from "./cocoonset-spec.ts";
export {
  addressCondition,
  setConditions,
  setPhases,
  subAgentSelector,
  type AgentStatus,
  type CocoonSetStatus,
  type SetCounts,
  type SetPhase,
  type ToolboxStatus,
} from "./cocoonset-status.ts";
export {
  findCondition,
  secondsText,
  withConditions,
  type Condition,
  type ConditionReport,
  type ReportOptions,
} from "./conditions.ts";
export { connectionTypeOf, type ConnectionFacts } from "./connection-type.ts";
export { extendDeleteList, readDeleteList, writeDeleteList } from "./delete-list.ts";
export {
  generationPatch,
  hibernatePatch,
  keepSnapshotOnDeletePatch,
  readGeneration,
  readHibernate,
  readKeepSnapshotOnDelete,
  readRestoreFromHibernate,
} from "./hibernate-state.ts";
export {
  hibernationCondition,
  hibernationDeletionPolicies,
  hibernationPhases,
  phaseOfDesire,
  readCocoonHibernation,
  restartsPhaseClock,
  type CocoonHibernation,
  type CocoonHibernationSpec,
  type CocoonHibernationStatus,
  type HibernationPhase,
} from "./hibernation.ts";
export { hibernationActions, type HibernationAction } from "./hibernation-words.ts";
export {
  defaultTag,
  formatImageReference,
  isDigest,
  isImageUrl,
  isRepository,
  isTag,
  tryParseImageReference,
  tryParseRelativeReference,
  type ImageReference,
  type RegistryReference,
  type RelativeReference,
} from "./image-reference.ts";
export {
  annotation,
  apiGroup,
  apiVersion,
  finalizer,
  hibernationAnnotation,
  hostTaint,
  label,
  legacyAnnotation,
  legacyApiGroup,
  legacyApiVersion,
  legacyLabel,
  machineContainer,
  nodeLabel,
  setAnnotation,
  shardAnnotation,
  systemNamespace,
  workloadAnnotation,
} from "./keys.ts";
export {
  hasReached,
  isLifecycleState,
  isSettled,
  lifecycleKey,
  lifecyclePatch,
  lifecycleStates,
  mayReplace,
  readLifecycle,
  type LifecycleState,
  type LifecycleStatus,
} from "./lifecycle.ts";
export { readMachineLabels, writeMachineLabels, type MachineLabels } from "./machine-labels.ts";
export { agentModes, toolboxModes, type AgentSpec, type ToolboxSpec } from "./machine-spec.ts";
export { manifestSchema, type Descriptor, type Manifest } from "./manifest.ts";
export {
  artifactKindOf,
  artifactKinds,
  emptyConfig,
  isCompressedType,
  isDiskType,
  isSnapshotLayerType,
  manifestAnnotation,
  mediaType,
  snapshotLayerType,
  uncompressedType,
  zstdSuffix,
  type ArtifactKind,
  type ManifestHead,
} from "./media-types.ts";
export {
  claimOfDeployment,
  claimOfPod,
  claimOfSet,
  collisionBetween,
  collisionsWith,
  maxVmNameLength,
  nameTroublesOfSet,
  vmNameTrouble,
  type NameClaim,
  type SetNames,
} from "./name-claims.ts";
export {
  isContainerRunning,
  isMachinePod,
  isPodReady,
  isPodTerminal,
  isVmLive,
  ownerSet,
  podKey,
  roleOfPod,
  slotOfPod,
  type PodLike,
} from "./pod-state.ts";
export { defaultPool, poolOf } from "./pool.ts";
export {
  readRebuildHistory,
  recordRebuild,
  writeRebuildHistory,
  type RebuildHistory,
  type Rebuilds,
} from "./rebuild-history.ts";
export { dnsLabelTrouble, dnsSubdomainTrouble, isDnsLabel, isDnsSubdomain } from "./rfc1123.ts";
export type { ObjectMeta } from "./schema.ts";
export {
  assemblePackedSnapshot,
  assembleSnapshot,
  maxChunksPerFile,
  maxSnapshotConfigBytes,
  readSnapshotConfig,
  readSnapshotManifest,
  snapshotArtifactType,
  snapshotVersionOf,
  type PackedSnapshot,
  type SnapshotConfig,
  type SnapshotFile,
  type SnapshotPart,
  type SnapshotVersion,
} from "./snapshot-manifest.ts";
export {
  configFromEnvelope,
  envelopeFromConfig,
  formatSnapshotEnvelope,
  readSnapshotEnvelope,
  type SnapshotEnvelope,
} from "./snapshot-envelope.ts";
export { grants, readSnapshotGrant, type CocoonSnapshotGrant } from "./snapshot-grant.ts";
export { shouldSnapshot, snapshotPolicies, type SnapshotPolicy } from "./snapshot-policy.ts";
export { hibernateTag, latestTag, releasedTag, tryReadReleasedTag } from "./tags.ts";
export {
  forkSnapshotName,
  legacyToolboxVmName,
  maxSlot,
  podName,
  podVmName,
  roleOfSlot,
  roles,
  slotOf,
  tryParseSlot,
  vmName,
  type Member,
  type Role,
  type SetKey,
} from "./vm-name.ts";
export {
  backends,
  connectionTypes,
  guestSystems,
  type Backend,
  type ConnectionType,
  type GuestSystem,
} from "./vm-options.ts";
export { clearedVmRuntime, readVmRuntime, writeVmRuntime, type VmRuntime } from "./vm-runtime.ts";
export {
  readVmSpec,
  vmSpecDifferences,
  vmSpecOfAgent,
  vmSpecOfToolbox,
  writeVmSpec,
  type AgentVm,
  type ToolboxVm,
  type VmSpec,
} from "./vm-spec.ts";
