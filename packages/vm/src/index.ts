/**
 * vm: machines behind one port. `VmRuntime` (runtime.ts) is what the rest of the system sees; `state.ts` says what may be
 * done when. Here are the driver of an external `cocoon` command and, under `/testing`, the fake and the contract suite; the
 * built-in engine is `@cocoon/qemu`. `image-store.ts` and `vm-network.ts` are the ports that an engine stands on. `/engine`
 * and `/host` are what engines are built with, `/wire` is the JSON of the command. Nothing here knows Kubernetes.
 */
export { openCliRuntime } from "./external/open-cli.ts";
export { isNodeCommand } from "./external/vintage.ts";
export { buildMacosVmId } from "./macos/macos-record.ts";
export { withMacos } from "./macos/with-macos.ts";
export type { BootableImage, GuestNic, Image, ImageGcReport, ImageStore, SeedFacts } from "./image-store.ts";
export { assignWindowsAddresses } from "./windows/sac.ts";
export { LeaseFile, openLeaseFinder } from "./leases/leases.ts";
export type {
  GcReport,
  GuestExit,
  GuestProcess,
  RuntimeDescription,
  LiveFiles,
  SnapshotFiles,
  VmEvent,
  VmImages,
  VmRuntime,
  VmSnapshots,
} from "./runtime.ts";
export type {
  CloneOptions,
  CloneSpec,
  CpuPolicy,
  DataDisk,
  ExecRequest,
  ExportOptions,
  ForkSpec,
  GcOptions,
  GuestLogin,
  ImportDirectoryOptions,
  ImportOptions,
  NetworkSpec,
  PullOptions,
  RemoteCloneSpec,
  RemoveVmOptions,
  RestoreMode,
  RunSpec,
  SaveOptions,
  SnapshotLimits,
  StopVmOptions,
  TtySize,
} from "./requests.ts";
export type { SaveReport, Snapshot } from "./snapshot.ts";
export { assertPermitted, liveStates, vmStates, type VmAction, type VmState } from "./state.ts";
export type {
  GuestOs,
  Hypervisor,
  PortForward,
  Vm,
  VmAddress,
  VmConfig,
  VmExit,
  VmLoading,
  VmOrigin,
  VmStats,
} from "./vm.ts";
export type { NetworkRequest, NicPlan, VmNetwork } from "./vm-network.ts";
