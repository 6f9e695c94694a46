/** Names of kubernetes-sigs/agent-sandbox: groups, labels, annotations, and the hash that its labels carry. */
const prefix = "agents.x-k8s.io";

export const sandboxGroup = prefix;
export const sandboxExtensionsGroup = `extensions.${prefix}`;
export const sandboxVersion = "v1beta1";
export const sandboxApiVersion = `${sandboxGroup}/${sandboxVersion}` as const;
export const sandboxExtensionsApiVersion = `${sandboxExtensionsGroup}/${sandboxVersion}` as const;
export const podSnapshotGroup = "podsnapshot.gke.io";
export const podSnapshotApiVersion = `${podSnapshotGroup}/v1` as const;

export const sandboxLabel = {
  nameHash: `${prefix}/sandbox-name-hash`,
  warmPool: `${prefix}/warm-pool-sandbox`,
  templateRefHash: `${prefix}/sandbox-template-ref-hash`,
  templateHash: `${prefix}/sandbox-template-hash`,
  launchType: `${prefix}/launch-type`,
  createdBy: `${prefix}/created-by`,
  claimUid: `${prefix}/claim-uid`,
  adoptable: `${prefix}/adoptable`,
} as const;

export const sandboxAnnotation = {
  /** On a claim: the Sandbox that was assigned to it, written before the Sandbox is handed over. */
  sandboxName: `${prefix}/sandbox-name`,
  templateRef: `${prefix}/sandbox-template-ref`,
  propagatedLabels: `${prefix}/propagated-labels`,
  propagatedAnnotations: `${prefix}/propagated-annotations`,
  controllerFirstObservedAt: `${prefix}/controller-first-observed-at`,
  claimFirstReadyAt: `${prefix}/claim-first-ready-at`,
} as const;

export const podSnapshotAnnotation = {
  /** On a pod: the PodSnapshot that it starts from. */
  name: `${podSnapshotGroup}/ps-name`,
  /** On a PodSnapshot: the pod that it was made of. */
  originPod: `${podSnapshotGroup}/origin-pod`,
} as const;

/** Keys below these are not passed from a template to its pods. */
export function isReservedSandboxKey(key: string): boolean {
  const [domain = ""] = key.split("/", 1);
  return key.includes("/") && (domain === sandboxGroup || domain === sandboxExtensionsGroup);
}

/** 32-bit FNV-1a of the UTF-8 bytes, as eight hexadecimal digits. */
export function sandboxHash(text: string): string {
  let hash = 0x81_1c_9d_c5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01_00_01_93);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
