/** kubelet: a virtual kubelet as a library: node, pods and the kubelet's HTTPS API around a provider of pods. */
export { startKubeletApi } from "./api/server.ts";
export type { PodStats, StatsSummary } from "./api/stats-summary.ts";
export type {
  Condition as PodCondition,
  Container,
  ContainerProbe,
  ContainerState,
  ContainerStatus,
  PodStatus,
} from "@cocoon/kube";
export type {
  ContainerTarget,
  DisappearanceOptions,
  LogOptions,
  Pod,
  PodProvider,
  PodReport,
  ProviderOptions,
  ReportPod,
} from "./provider.ts";
export type { CommandIo } from "./stream/remote-command.ts";
export type { TerminalSize } from "./stream/remote-command.ts";
export { startKubelet, type Kubelet, type KubeletOptions } from "./kubelet.ts";
export { ensureMachineId } from "./node/host-info.ts";
export type { NodeDescription } from "./node/node-description.ts";
