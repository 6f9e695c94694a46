/**
 * Admission webhooks: the HTTPS server that the API server calls, the codec of AdmissionReview (v1 and v1beta1), and
 * the words a rule is written in.
 *
 * A rule is a function `(request, context) => Verdict` and knows nothing of HTTP; `reviewing` gives it typed objects.
 * `startAdmissionServer` runs rules on paths of one listener, within limits of size, depth, number and time. Its
 * certificate comes from `@cocoon/kube/certificates` and may change while it runs. Registering webhooks with the API
 * server is not done here.
 */
export type { AdmissionEndpoint, ReviewResult } from "./decide.ts";
export {
  reviewing,
  type AdmissionContext,
  type AdmissionHandler,
  type Decision,
  type Middleware,
  type ObjectReader,
  type TypedRequest,
} from "./handler.ts";
export { setMetadata } from "./set-metadata.ts";
export type {
  AdmissionRequest,
  GroupVersionKind,
  GroupVersionResource,
  JsonObject,
  Operation,
  UserInfo,
} from "./request.ts";
export type { RequestResult } from "./metrics.ts";
export { readRequest, readReview, type Review, type ReviewVersion } from "./read-review.ts";
export type { ReviewEvent, ReviewObserver } from "./review-service.ts";
export {
  startAdmissionServer,
  type AdmissionLimits,
  type AdmissionServer,
  type AdmissionServerOptions,
} from "./server.ts";
export type { TimeLimits } from "./budget.ts";
export {
  allow,
  allowWithPatch,
  deny,
  denyFault,
  denyInvalid,
  type Allowed,
  type Denied,
  type DenyOptions,
  type Verdict,
} from "./verdict.ts";
export { nestsDeeperThan } from "./json-depth.ts";
export type { ReviewWire } from "./wire.ts";
export { writeReview } from "./write-review.ts";
