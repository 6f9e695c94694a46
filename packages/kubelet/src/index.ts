/**
 * kubelet: a virtual kubelet as a library. It keeps a node registered, brings the pods of that node to a provider and
 * their status back, and serves the kubelet's HTTPS API with logs, exec, attach, port-forward and stats. What a pod
 * is made of is the provider's business.
 */
export { createAuthenticator, type Authenticator, type User } from "./api/authentication.ts";
export { createAuthorizer, type AccessRequest, type Authorizer } from "./api/authorization.ts";
export { startKubeletApi, type KubeletApiOptions } from "./api/server.ts";
export type {
  ContainerStats,
  CpuStats,
  FsStats,
  MemoryStats,
  NetworkStats,
  NodeStats,
  PodStats,
  StatsSummary,
} from "./api/stats-summary.ts";
export type {
  Container,
  ContainerProbe,
  ContainerState,
  ContainerStatus,
  ContainerTarget,
  EnvVar,
  LogOptions,
  Pod,
  PodCondition,
  PodProvider,
  PodReport,
  PodSpec,
  PodStatus,
  ProviderOptions,
  ReportPod,
  ResourceRequirements,
} from "./provider.ts";
export type { CommandEnd, CommandIo, StreamTimes, TerminalSize } from "./stream/index.ts";
export { startKubelet, type Kubelet, type KubeletOptions } from "./kubelet.ts";
export type { NodeCondition, NodeDescription } from "./node/node-description.ts";
