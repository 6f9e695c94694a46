/** Labels that the kubelet gives its VMs: they are written with the VM, and found again after any crash. */
export const vmLabel = {
  /** `namespace/name` of the pod. */
  pod: "cocoon.pod",
  uid: "cocoon.pod-uid",
  generation: "cocoon.generation",
  /** As the pod named it. */
  image: "cocoon.image",
  /** Digest of the snapshot that the VM was restored from: the proof of descent. */
  restoredFrom: "cocoon.restored-from",
} as const;
