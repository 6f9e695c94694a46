/**
 * controlplane: a real etcd and Kubernetes control plane on one machine. Finds or builds the programs, makes the
 * certificates, describes each component as data, starts them in dependency order and stops them in reverse.
 * It knows nothing of machines; other parts are added to the same list of components.
 */
export { cachedBinaries, defaultCacheRoot } from "./binaries/cache.ts";
export { resolveBinaries, type Binaries } from "./binaries/resolve.ts";
export type { ProgramGroup } from "./binaries/programs.ts";
export { dependencyGroups, type Component } from "./components/component.ts";
export { findRunning, markedProcesses, readRecord } from "./components/run-records.ts";
export { launchComponent, logPath } from "./components/launch.ts";
export { isSupervised } from "./components/restart-states.ts";
export { superviseComponents } from "./components/supervisor.ts";
export {
  componentStatus,
  startComponents,
  stopComponents,
  type ComponentStatus,
} from "./components/runner.ts";
export {
  describeControlPlane,
  planControlPlane,
  prepareControlPlane,
  type PreparedControlPlane,
  type PrepareOptions,
} from "./control-plane.ts";
export { probeHttps } from "./https-probe.ts";
export {
  clusterLayout,
  damagedStateFix,
  readClusterState,
  type ClusterLayout,
  type ControlPlaneSettings,
} from "./layout.ts";
export { pkiFiles, type PkiFiles } from "./pki/cluster-pki.ts";
export { ensureClientIdentity, identityKubeconfig } from "./pki/client-identity.ts";
export { keepPorts, removeStalePortLocks, reservePort, type ReservedPort } from "./ports.ts";
export { createAuthority, issueCertificate } from "./pki/certificate-authority.ts";
