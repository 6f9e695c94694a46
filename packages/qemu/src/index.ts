/**
 * qemu: the built-in engine behind `VmRuntime`. `openQemuRuntime` opens a store (one directory per VM and per snapshot) and
 * runs machines in QEMU: create, clone, save, restore, guest agent, networks. Images come through the port `ImageStore`.
 * Nothing here knows Kubernetes, registries or a command line.
 */
export {
  findCniProblems,
  findMissingPlugins,
  isPlainList,
  listCniNetworks,
  openBridgeNetwork,
  openCniNetwork,
  openUserNetwork,
  removeMachineNamespaces,
  type PluginCall,
} from "./network/index.ts";
export { openQemuRuntime, type QemuOptions } from "./open.ts";
export { chooseVmUsers } from "./process/jail.ts";
export { probeHost } from "./process/host.ts";
export { findFuseProblem } from "./lazy/mount.ts";
export { findMissingIsolation } from "./process/isolation.ts";
export { ensureLoopbackGuard } from "./process/loopback-guard.ts";
export { vmFile } from "./store/layout.ts";
