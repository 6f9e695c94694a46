/**
 * vm: machines behind one port. `VmRuntime` (runtime.ts) is what the rest of the system sees; backends implement it
 * over QEMU, over an external `cocoon` command, and in memory for tests. `state.ts` says what may be done when.
 * `image-store.ts` and `vm-network.ts` are the ports that a backend stands on; `agent-protocol.ts` is the language of the
 * agent inside a guest. Nothing here knows Kubernetes.
 */
export { openCliRuntime, type CliOptions } from "./cli/open-cli.ts";
export {
  debianImageName,
  demoImageName,
  ensureDemoImage,
  openImageLibrary,
  RegistrySource,
} from "./images/index.ts";
export type {
  DemoImageOptions,
  ImageLibraryOptions,
  ImageSource,
  RegistrySourceOptions,
  SourceBlob,
  SourceImage,
} from "./images/index.ts";
export type { BootableImage, GuestNic, Image, ImageGcReport, ImageStore, SeedFacts } from "./image-store.ts";
export { assignWindowsAddresses, type SacOptions, type WindowsAddress } from "./windows/sac.ts";
export { LeaseFile, openBridgeNetwork, openUserNetwork, parseLeases } from "./network/index.ts";
export type { BridgeNetwork, BridgeNetworkOptions, Lease, UserNetworkOptions } from "./network/index.ts";
export { openQemuRuntime, type QemuOptions } from "./qemu/open.ts";
export type {
  CloneSpec,
  CpuPolicy,
  DataDisk,
  ExecRequest,
  ExportOptions,
  ForkSpec,
  GcReport,
  GuestExit,
  GuestLogin,
  GuestProcess,
  ImportDirectoryOptions,
  ImportOptions,
  NetworkWish,
  PullOptions,
  RemoveVmOptions,
  RestoreMode,
  RunSpec,
  RuntimeDescription,
  SaveOptions,
  SnapshotFile,
  SnapshotFiles,
  StopVmOptions,
  TtySize,
  VmEvent,
  VmImages,
  VmRuntime,
  VmSnapshots,
} from "./runtime.ts";
export type { SaveReport, Snapshot } from "./snapshot.ts";
export { assertPermitted, liveStates, permission, stateAfter, vmActions, vmStates } from "./state.ts";
export type { Permission, VmAction, VmState } from "./state.ts";
export type {
  GuestOs,
  GuestPhase,
  Hypervisor,
  ImageType,
  PortForward,
  Vm,
  VmAddress,
  VmConfig,
  VmDisk,
  VmExit,
  VmNic,
  VmOrigin,
  VmStats,
} from "./vm.ts";
export type { NetworkRequest, NicPlan, VmNetwork } from "./vm-network.ts";
