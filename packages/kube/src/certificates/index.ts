/**
 * Serving certificates: where a TLS server's certificate comes from and how it changes without a restart, behind one
 * interface, `ServingCertificates`.
 *
 * - `startFileCertificates`: files that somebody else renews (cert-manager).
 * - `startBuiltInCertificates`: an authority of our own in a Secret, shared and rotated by the replicas, injected into
 *   webhook configurations and CRD conversion (`secretStore`, `validatingWebhooks`, `mutatingWebhooks`,
 *   `conversionWebhook`). How a rotation goes is told in rotation-plan.ts.
 * - `selfSignedCertificates`, `fileOrSelfSignedCertificates`: for servers like a kubelet's.
 *
 * A server takes the pair with `tlsPair` and keeps up with `followCertificates`; the admission server does both.
 */
export { startBuiltInCertificates, type BuiltInCertificates, type BuiltInOptions } from "./built-in.ts";
export {
  conversionWebhook,
  mutatingWebhooks,
  validatingWebhooks,
  type BundleReading,
  type BundleTarget,
  type TargetOptions,
  type WebhookTargetOptions,
} from "./bundle-target.ts";
export { systemClock, type Clock } from "./clock.ts";
export { startFileCertificates, type FileCertificatesOptions } from "./files.ts";
export {
  createAuthority,
  createSelfSignedPair,
  issuePair,
  issueServingPair,
  type Bearer,
  type IssuedPair,
  type ServerNames,
  type Validity,
} from "./issue.ts";
export { exportCertificateMetrics } from "./metrics.ts";
export { defaultPolicy, type RotationPolicy } from "./rotation-plan.ts";
export type { StoredContent } from "./rotation-state.ts";
export { secretStore, type SecretStoreOptions } from "./secret-store.ts";
export {
  fileOrSelfSignedCertificates,
  selfSignedCertificates,
  type FileOrSelfSignedOptions,
  type SelfSignedOptions,
} from "./self-signed.ts";
export {
  followCertificates,
  readPair,
  tlsPair,
  type ServingCertificates,
  type ServingPair,
} from "./serving-certificates.ts";
export type { CertificateStore, Stored } from "./store.ts";
