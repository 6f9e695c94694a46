/**
 * colocation: Koordinator-compatible admission. Rules are pure functions under `pod/`, `node/`, `quota/`, `reservation/` and
 * `configmap/`; `server/` holds caches, certificates, registration, limits, audit and metrics.
 */
export { documentedGates, readGates } from "./gates.ts";
export { startColocation, type ColocationSettings, type RunningColocation } from "./server/start.ts";
export { colocationProgram } from "./config.ts";
export { strategicMerge } from "./patch/strategic-merge.ts";
export { podTemplateSchema } from "./patch/schemas.ts";
export { elasticQuotas, profiles } from "./kinds.ts";
export { checkColocation } from "./doctor.ts";
