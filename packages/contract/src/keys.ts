/**
 * Every name that two parts must spell alike: API groups, labels, annotations, finalizers, taints. Nobody writes such
 * a text anywhere else. Who writes and who reads each key is in `key-catalogue.ts`.
 *
 * Prefixes: `cocoonset.cocoonstack.io/` holds values of a set mirrored on its pods and the operator's book-keeping,
 * `vm.cocoonstack.io/` what concerns one machine, `cocoonstack.io/` labels of nodes.
 */
const setPrefix = "cocoonset.cocoonstack.io";
const vmPrefix = "vm.cocoonstack.io";
const nodePrefix = "cocoonstack.io";

export const apiGroup = "cocoonset.cocoonstack.io";
export const apiVersion = `${apiGroup}/v1` as const;

export const systemNamespace = "cocoon-system";

export const finalizer = {
  cocoonSet: `${setPrefix}/finalizer`,
  cocoonHibernation: `cocoonhibernation.${setPrefix}/finalizer`,
} as const;

/** Labels of pods. */
export const label = {
  set: `${setPrefix}/name`,
  role: `${setPrefix}/role`,
  slot: `${setPrefix}/slot`,
  appName: "app.kubernetes.io/name",
} as const;

/** Labels of nodes; pods select on them. The pool is also honoured as label or annotation of a pod. */
export const nodeLabel = {
  pool: `${nodePrefix}/pool`,
  snapshotCpuClass: `${nodePrefix}/snapshot-cpu-class`,
  role: "node-role.kubernetes.io/cocoon-vm",
} as const;

/** The taint of VM hosts. A toleration with this key, whatever its value and effect, makes a pod a machine. */
export const hostTaint = {
  key: "virtual-kubelet.io/provider",
  value: "cocoon",
  effect: "NoSchedule",
} as const;

/** Name of the one container of a machine's pod. */
export const machineContainer = "agent";

/** Annotations of pods. */
export const annotation = {
  mode: `${setPrefix}/mode`,
  image: `${setPrefix}/image`,
  storage: `${setPrefix}/storage`,
  managed: `${setPrefix}/managed`,
  os: `${setPrefix}/os`,
  snapshotPolicy: `${setPrefix}/snapshot-policy`,
  network: `${setPrefix}/network`,
  forcePull: `${setPrefix}/force-pull`,
  generation: `${setPrefix}/generation`,
  deadLetter: `${setPrefix}/dead-letter`,

  vmName: `${vmPrefix}/name`,
  vmId: `${vmPrefix}/id`,
  ip: `${vmPrefix}/ip`,
  vncPort: `${vmPrefix}/vnc-port`,
  hibernate: `${vmPrefix}/hibernate`,
  restoreFromHibernate: `${vmPrefix}/restore-from-hibernate`,
  keepSnapshotOnDelete: `${vmPrefix}/keep-snapshot-on-delete`,
  forkFrom: `${vmPrefix}/fork-from`,
  cloneFromDir: `${vmPrefix}/clone-from-dir`,
  connType: `${vmPrefix}/conn-type`,
  backend: `${vmPrefix}/backend`,
  noDirectIo: `${vmPrefix}/no-direct-io`,
  probePort: `${vmPrefix}/probe-port`,
  lifecycleState: `${vmPrefix}/lifecycle-state`,
  lifecycleObservedGeneration: `${vmPrefix}/lifecycle-observed-generation`,
  lifecycleStateMessage: `${vmPrefix}/lifecycle-state-message`,
  postCloneHint: `${vmPrefix}/post-clone-hint`,
  postCloneState: `${vmPrefix}/post-clone-state`,
  postCloneErrors: `${vmPrefix}/post-clone-errors`,

  // Ours; the Go systems do not know them.
  reservation: `${vmPrefix}/reservation`,
  admission: `${vmPrefix}/admission`,
  snapshotDigest: `${vmPrefix}/snapshot-digest`,
  idleSince: `${vmPrefix}/idle-since`,
  hibernateReason: `${vmPrefix}/hibernate-reason`,
  templateHash: `${setPrefix}/template-hash`,
  logs: `${vmPrefix}/logs`,
  restoredFrom: `${vmPrefix}/restored-from`,
} as const;

/** Annotation of a Deployment, StatefulSet or ReplicaSet whose pods are machines. */
export const workloadAnnotation = {
  allowScaleDown: `${nodePrefix}/allow-scale-down`,
} as const;

/** Annotations of the webhook's ConfigMaps: private to it. */
export const shardAnnotation = {
  sealed: `${nodePrefix}/sealed`,
  imported: `${nodePrefix}/imported`,
} as const;

/** Annotations of a CocoonSet: private to the operator, readable by all. */
export const setAnnotation = {
  hibernatedOnNode: `${setPrefix}/hibernated-on-node`,
  deleteVmNames: `${setPrefix}/delete-vm-names`,
  rebuildHistory: `${setPrefix}/rebuild-history`,

  // Ours; the Go systems do not know them.
  toolboxRebuilds: `${setPrefix}/toolbox-rebuilds`,
  migration: `${setPrefix}/migration`,
  releasedVmNames: `${setPrefix}/released-vm-names`,
  bootFresh: `${setPrefix}/boot-fresh`,
} as const;

/** Annotations of a CocoonHibernation; ours. */
export const hibernationAnnotation = {
  retry: `${setPrefix}/retry`,
} as const;

/** The older names, everything under `cocoon.cis/`: read where the new key is missing, written on bridged pods. */
const legacyPrefix = "cocoon.cis";

export const legacyApiGroup = legacyPrefix;
export const legacyApiVersion = `${legacyApiGroup}/v1alpha1` as const;

export const legacyLabel = {
  set: `${legacyPrefix}/cocoonset`,
  role: `${legacyPrefix}/role`,
  slot: `${legacyPrefix}/slot`,
  app: "app",
} as const;

export const legacyAnnotation = {
  mode: `${legacyPrefix}/mode`,
  image: `${legacyPrefix}/image`,
  storage: `${legacyPrefix}/storage`,
  managed: `${legacyPrefix}/managed`,
  os: `${legacyPrefix}/os`,
  forkFrom: `${legacyPrefix}/fork-from`,
  snapshotPolicy: `${legacyPrefix}/snapshot-policy`,
  network: `${legacyPrefix}/network`,
  ip: `${legacyPrefix}/ip`,
  vmId: `${legacyPrefix}/vm-id`,
  vmName: `${legacyPrefix}/vm-name`,
  vncPort: `${legacyPrefix}/vnc-port`,
  hibernate: `${legacyPrefix}/hibernate`,
} as const;
