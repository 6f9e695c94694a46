/**
 * Every name that two parts must spell alike: API groups, labels, annotations, finalizers, taints. Writers and readers of each key
 * are in docs/contract.md. `cocoonset.cocoonstack.io/` is about a set, `vm.…/` about one machine, `cocoonstack.io/` about nodes.
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
  /** "enforced" where NetworkPolicies hold for machines: by the cluster's engine, or by the node itself. */
  networkPolicy: `${nodePrefix}/network-policy`,
} as const;

export const nodeAnnotation = {
  /** Names of the VMs that the node holds, running or not, separated by commas: a pod is not the only proof of a machine. */
  machines: `${nodePrefix}/machines`,
  /** Names of VMs that the node keeps frozen, because a pod of another node had their machine. */
  frozenMachines: `${nodePrefix}/frozen-machines`,
} as const;

/** The taint of VM hosts. A toleration with this key, whatever its value and effect, makes a pod a machine. */
export const hostTaint = {
  key: "virtual-kubelet.io/provider",
  value: "cocoon",
  effect: "NoSchedule",
} as const;

export const machineContainer = "agent";

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
  /** Generation whose hibernation has the machine paused and saved on its node; the push follows. */
  savedGeneration: `${vmPrefix}/saved-generation`,
  hibernateReason: `${vmPrefix}/hibernate-reason`,
  templateHash: `${setPrefix}/template-hash`,
  logs: `${vmPrefix}/logs`,
  restoredFrom: `${vmPrefix}/restored-from`,
  restoredDigest: `${vmPrefix}/restored-digest`,
  lazyWake: `${vmPrefix}/lazy-wake`,
  loading: `${vmPrefix}/loading`,
  env: `${vmPrefix}/env`,
  envApplied: `${vmPrefix}/env-applied`,
  snapshotRequest: `${vmPrefix}/snapshot-request`,
  snapshotTaken: `${vmPrefix}/snapshot-taken`,
  restoredSnapshots: `${vmPrefix}/restored-snapshots`,
  rewoundTo: `${vmPrefix}/rewound-to`,
  pause: `${vmPrefix}/pause`,
  paused: `${vmPrefix}/paused`,
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
  vmNamesUid: `${setPrefix}/vm-names-uid`,
} as const;

/** Labels and annotations of the gateway: of sets that are sandboxes, and of the Secrets that hold its API keys. */
export const gatewayKey = {
  /** Label of a set: "true" when it was made by the gateway. */
  sandbox: `${setPrefix}/sandbox`,
  /** Annotation of such a set: what the client asked for, as JSON. */
  sandboxSpec: `${setPrefix}/sandbox-spec`,
  /** Label of a set that keeps a snapshot for the gateway: the name of the snapshot or template. */
  template: `${setPrefix}/template`,
  /** Annotation of such a set that a client built: the tags that name this build, separated by commas. */
  templateTags: `${setPrefix}/template-tags`,
  /** Label of a set whose machine waits to become a sandbox: which template it is of. */
  pool: `${setPrefix}/sandbox-pool`,
  /** Annotation of such a set: "true" once its guest is prepared. */
  poolReady: `${setPrefix}/sandbox-pool-ready`,
  /** Label of a ConfigMap that says how far the build of a template is. */
  build: `${setPrefix}/template-build`,
  /** Label of a Secret that holds the hash of an API key. */
  apiKey: `${setPrefix}/api-key`,
  /** Label of such a Secret: the first 40 digits of the hash, to look one key up. */
  apiKeyHash: `${setPrefix}/api-key-hash`,
  /** Annotation of any set: "true" when a request for one of its machines may wake it. */
  wakeOnTraffic: `${setPrefix}/wake-on-traffic`,
  /** Annotation of any set: ports of its machines that are open to requests without a token, as "80,8080". */
  publicPorts: `${setPrefix}/public-ports`,
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
