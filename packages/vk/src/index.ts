/**
 * vk: vk-cocoon, the kubelet whose pods are MicroVMs. `startVk` joins a VM runtime, a registry and a cluster; the loop of every
 * machine is `provider/machine-controller.ts`, its decisions are `provider/plan.ts`.
 *
 * It keeps nothing of its own: pods, VMs and the registry are the only state, so it may die and start at any time.
 */
export { startVk, type RunningVk, type VkOptions } from "./start.ts";
export { vkProgram } from "./config.ts";
export { runVk } from "./run.ts";
