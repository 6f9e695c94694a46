/**
 * Admission webhooks: the HTTPS server that the API server calls and the codec of AdmissionReview (v1 and v1beta1). A rule is a
 * function `(request, context) => Verdict` that knows nothing of HTTP. Webhooks are registered elsewhere.
 */
export type { AdmissionEndpoint } from "./decide.ts";
export type { AdmissionContext, AdmissionHandler, Decision, Middleware } from "./request.ts";
export type { AdmissionRequest, JsonObject, UserInfo } from "./request.ts";
export { readRequest, type Review } from "./read-review.ts";
export type { ReviewEvent, ReviewObserver } from "./review-service.ts";
export { startAdmissionServer, type AdmissionServer, type AdmissionServerOptions } from "./server.ts";
export type { TimeLimits } from "./router.ts";
export { allow, allowWithPatch, deny, type Denied, type DenyOptions, type Verdict } from "./verdict.ts";
export { nestsDeeperThan } from "./json-depth.ts";
export { asciiJson, type ReviewWire } from "./wire.ts";
