/**
 * Serving certificates: where a TLS server's certificate comes from and how it changes without a restart.
 *
 * - `startFileCertificates`: files that another program renews (cert-manager).
 * - `startBuiltInCertificates`: an authority in a Secret, shared and rotated by the replicas, injected into webhook configurations.
 * - `selfSignedCertificates`, `fileOrSelfSignedCertificates`: for servers like a kubelet's.
 */
export { startBuiltInCertificates, type BuiltInCertificates, type BuiltInOptions } from "./built-in.ts";
export { mutatingWebhooks, validatingWebhooks, type BundleTarget } from "./bundle-target.ts";
export { startFileCertificates } from "./files.ts";
export {
  createAuthority,
  createSelfSignedPair,
  issuePair,
  issueServingPair,
  type Validity,
} from "./issue.ts";
export type { RotationPolicy } from "./rotation-plan.ts";
export { secretStore } from "./secret-store.ts";
export { fileOrSelfSignedCertificates, selfSignedCertificates } from "./self-signed.ts";
export {
  exportCertificateMetrics,
  followCertificates,
  tlsPair,
  type ServingCertificates,
  type ServingPair,
} from "./serving-certificates.ts";
