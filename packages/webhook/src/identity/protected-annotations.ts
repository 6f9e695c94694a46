/**
 * Annotations that say which machine a pod stands for and where it comes from. After the pod was created only their
 * writers change them: the operator, the kubelets, cluster administrators. deploy/webhook/base/identity-policy.yaml
 * holds the same list for the API server; a test compares the two.
 */
import { annotation, legacyAnnotation } from "@cocoon/contract";

export const protectedAnnotations: readonly string[] = [
  annotation.vmName,
  annotation.vmId,
  annotation.ip,
  annotation.forkFrom,
  annotation.cloneFromDir,
  annotation.restoreFromHibernate,
  annotation.restoredFrom,
  annotation.snapshotDigest,
  annotation.reservation,
  annotation.admission,
  annotation.image,
  annotation.mode,
  annotation.managed,
  legacyAnnotation.vmName,
  legacyAnnotation.vmId,
  legacyAnnotation.ip,
  legacyAnnotation.forkFrom,
  legacyAnnotation.image,
  legacyAnnotation.mode,
  legacyAnnotation.managed,
];

type Annotations = Readonly<Record<string, string>> | undefined;

export function findChangedIdentity(before: Annotations, after: Annotations): string[] {
  return protectedAnnotations.filter((key) => before?.[key] !== after?.[key]);
}

/** What a kubelet recorded about a running machine. A new pod that carries them is a copy of another pod. */
export const runtimeAnnotations: readonly string[] = [
  annotation.vmId,
  annotation.ip,
  annotation.restoredFrom,
  annotation.snapshotDigest,
  legacyAnnotation.vmId,
  legacyAnnotation.ip,
];
