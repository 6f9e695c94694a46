/** What every part of Cocoon on this machine is described from. */
import { join } from "node:path";
import type { Component, PkiFiles } from "@cocoon/controlplane";

/** Ports of the parts, and which component listens on each. */
export const portOwners = {
  registry: "registry",
  registryHealth: "registry",
  node1: "vk-node-1",
  node1Health: "vk-node-1",
  node2: "vk-node-2",
  node2Health: "vk-node-2",
  operatorHealth: "operator",
  operatorMetrics: "operator",
  webhook: "webhook",
  webhookHealth: "webhook",
  colocation: "colocation",
  colocationHealth: "colocation",
  colocationMetrics: "colocation",
} as const;
export type PartPort = keyof typeof portOwners;
export type PartPorts = Readonly<Record<PartPort, number>>;

export interface PartContext {
  /** Holds everything of the parts, below the platform's directory. */
  readonly directory: string;
  readonly ports: PartPorts;
  readonly pki: PkiFiles;
  /** URL of the Kubernetes API. */
  readonly server: string;
  /** The administrator's. */
  readonly kubeconfig: string;
  readonly kubectl: string;
  /** What parts and people show to the registry. */
  readonly registryToken: string;
  /** Where programs like QEMU are looked for. */
  readonly path: string;
}

export const loopback = "127.0.0.1";

const packages = join(import.meta.dirname, "../../..");

type ProgramPackage = "registry" | "vk" | "operator" | "webhook" | "colocation";

/** Files that are part of the source, such as manifests. */
export function sourceFile(...names: readonly string[]): string {
  return join(packages, "..", ...names);
}

/** Node with one of our programs. */
export function programArguments(name: ProgramPackage, ...args: readonly string[]): readonly string[] {
  // Most of what a part allocates dies at once: a small nursery keeps its memory small.
  return ["--max-semi-space-size=2", join(packages, name, "src", "main.ts"), ...args];
}

export function registryAddress({ ports }: Pick<PartContext, "ports">): string {
  return `${loopback}:${ports.registry}`;
}

/**
 * Compiled code is kept, so that parts start faster and without the compiler in memory. Threads share two heaps of the C
 * library instead of having one each, and what they once needed goes back to the system.
 */
export function programEnvironment({ directory }: Pick<PartContext, "directory">): Record<string, string> {
  return {
    NODE_COMPILE_CACHE: join(directory, "compiled"),
    MALLOC_ARENA_MAX: "2",
    MALLOC_TRIM_THRESHOLD_: "131072",
  };
}

/** How a part reaches the registry. */
export function registryAccess(context: PartContext): Pick<Component, "env" | "secrets"> {
  return {
    env: { OCI_REGISTRY: registryAddress(context), EPOCH_CA_CERT: context.pki.ca.certificate },
    secrets: { EPOCH_TOKEN: context.registryToken },
  };
}
