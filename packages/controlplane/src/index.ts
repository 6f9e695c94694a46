/**
 * controlplane: a real etcd and Kubernetes control plane on one machine. Finds or builds the programs, makes the
 * certificates, describes each component as data, starts them in dependency order and stops them in reverse.
 * It knows nothing of machines; other parts are added to the same list of components.
 */
export { cachedBinaries, defaultCacheRoot } from "./binaries/cache.ts";
export { programs, type ProgramName } from "./binaries/programs.ts";
export { resolveBinaries, type Binaries, type ResolveOptions } from "./binaries/resolve.ts";
export { dependencyGroups, type Component } from "./components/component.ts";
export { findRunning, markedProcesses, readRecord } from "./components/run-records.ts";
export { launchComponent, logPath } from "./components/launch.ts";
export { isSupervised, readRestartStates, type RestartState } from "./components/restart-states.ts";
export { superviseComponents, type SupervisorOptions } from "./components/supervisor.ts";
export {
  componentStatus,
  startComponents,
  stopComponents,
  type ComponentStatus,
  type RunnerOptions,
} from "./components/runner.ts";
export {
  describeControlPlane,
  planControlPlane,
  prepareControlPlane,
  type PreparedControlPlane,
  type PrepareOptions,
} from "./control-plane.ts";
export { probeHttps, type HttpsProbe } from "./https-probe.ts";
export {
  clusterLayout,
  damagedStateFix,
  defaultSettings,
  readClusterState,
  type ClusterLayout,
  type ClusterPorts,
  type ClusterState,
  type ControlPlaneSettings,
} from "./layout.ts";
export { pkiFiles, type PairFiles, type PkiFiles } from "./pki/cluster-pki.ts";
export { ensureClientIdentity, identityKubeconfig, type ClientIdentity } from "./pki/client-identity.ts";
export {
  isFree,
  keepPorts,
  removeStalePortLocks,
  reservePort,
  tryReservePort,
  type ReservedPort,
} from "./ports.ts";
export {
  createAuthority,
  issueCertificate,
  type CertificateRequest,
  type KeyPair,
} from "./pki/certificate-authority.ts";
