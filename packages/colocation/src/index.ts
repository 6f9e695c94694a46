/**
 * colocation: Koordinator-compatible admission. Pods become batch or mid pods by ClusterColocationProfile and are held
 * to the rules of QoS, priority and quotas; nodes are stretched by an annotation; quotas form a tree that stays sound
 * under concurrent changes; the SLO configuration is checked key by key.
 *
 * Rules are pure functions under `pod/`, `node/`, `quota/`, `reservation/` and `configmap/`; `server/` holds caches,
 * certificates, registration and everything around a rule (limits, audit, metrics). `startColocation` runs a replica.
 */
export { documentedGates, defaultGates, readGates, type GateName, type Gates } from "./gates.ts";
export {
  startColocation,
  type ColocationOptions,
  type ColocationSettings,
  type RunningColocation,
} from "./server/start.ts";
export { colocationProgram, type ColocationConfig } from "./config.ts";
export type { RuleSettings } from "./server/endpoints.ts";
export { strategicMerge } from "./patch/strategic-merge.ts";
export { podTemplateSchema } from "./patch/schemas.ts";
export { elasticQuotas, profiles, priorityClasses, reservations } from "./kinds.ts";
export { colocationCustomResources } from "./install/custom-resources.ts";
export { colocationManifests } from "./install/manifests.ts";
export type { Manifest } from "./install/manifest.ts";
export { installCustomResources } from "./install/install.ts";
export { checkColocation, type ColocationCheck, type DoctorOptions } from "./doctor.ts";
