/** Every word that these webhooks share with Koordinator, spelled as Koordinator spells it. */

export const qosLabel = "koordinator.sh/qosClass";
export const subPriorityLabel = "koordinator.sh/priority";
export const priorityClassLabel = "koordinator.sh/priority-class";
export const skipEnhancedLabel = "pod.koordinator.sh/skip-enhanced-validation";
export const mutatingUpdateLabel = "pod.koordinator.sh/mutating-update";
export const configMapTypeLabel = "koordinator.sh/configmap-type";
export const controlPlaneLabel = "control-plane";

export const extendedSpecAnnotation = "node.koordinator.sh/extended-resource-spec";
export const reservePodAnnotation = "scheduling.koordinator.sh/reserve-pod";
export const reservationAffinityAnnotation = "scheduling.koordinator.sh/reservation-affinity";
export const skipResourcesAnnotation = "config.koordinator.sh/skip-update-resources";
export const ratioAnnotation = "node.koordinator.sh/resource-amplification-ratio";
export const rawAllocatableAnnotation = "node.koordinator.sh/raw-allocatable";

const quotaPrefix = "quota.scheduling.koordinator.sh";
export const quotaKey = {
  parent: `${quotaPrefix}/parent`,
  isParent: `${quotaPrefix}/is-parent`,
  isRoot: `${quotaPrefix}/is-root`,
  treeId: `${quotaPrefix}/tree-id`,
  allowLent: `${quotaPrefix}/allow-lent-resource`,
  forceUpdate: `${quotaPrefix}/allow-force-update`,
  name: `${quotaPrefix}/name`,
  preemptible: `${quotaPrefix}/preemptible`,
  sharedWeight: `${quotaPrefix}/shared-weight`,
  namespaces: `${quotaPrefix}/namespaces`,
  guaranteed: `${quotaPrefix}/guaranteed`,
  admission: `${quotaPrefix}/admission`,
  childRequest: `${quotaPrefix}/child-request`,
  strictKeys: `${quotaPrefix}/max-strict-check-resource-keys`,
} as const;

/** Ours: which admitted pods of a quota are not stored yet, and what we last wrote as its child-request. */
export const usageAnnotation = "colocation.cocoonstack.io/quota-ledger";

export const rootQuota = "koordinator-root-quota";
export const systemQuota = "koordinator-system-quota";
export const defaultQuota = "koordinator-default-quota";

export const batchCpu = "kubernetes.io/batch-cpu";
export const batchMemory = "kubernetes.io/batch-memory";
export const midCpu = "kubernetes.io/mid-cpu";
export const midMemory = "kubernetes.io/mid-memory";

export const gpu = {
  whole: "koordinator.sh/gpu",
  shared: "koordinator.sh/gpu.shared",
  core: "koordinator.sh/gpu-core",
  memory: "koordinator.sh/gpu-memory",
  memoryRatio: "koordinator.sh/gpu-memory-ratio",
  nvidia: "nvidia.com/gpu",
  npuCore: "huawei.com/npu-core",
} as const;

/** Ours: which profiles with a probability this pod drew, so that a second review gives the same pod. */
export const drawnAnnotation = "colocation.cocoonstack.io/drawn-profiles";

/** Ours: labels and annotations as they were before profiles changed them, where a second review needs them. */
export const beforeProfilesAnnotation = "colocation.cocoonstack.io/before-profiles";
