/** What every part of Cocoon on this machine is described from. */
import { join } from "node:path";
import type { PkiFiles } from "@cocoon/controlplane";

/** Ports of the parts, and which component listens on each. */
export const portOwners = {
  registry: "registry",
  registryHealth: "registry",
  node1: "vk-node-1",
  node1Health: "vk-node-1",
  node2: "vk-node-2",
  node2Health: "vk-node-2",
} as const;
export type PartPort = keyof typeof portOwners;
export type PartPorts = Readonly<Record<PartPort, number>>;

export interface PartContext {
  /** Holds everything of the parts, below the platform's directory. */
  readonly directory: string;
  readonly ports: PartPorts;
  readonly pki: PkiFiles;
  /** The administrator's. */
  readonly kubeconfig: string;
  /** What parts and people show to the registry. */
  readonly registryToken: string;
  /** Where programs like QEMU are looked for. */
  readonly path: string;
}

export const loopback = "127.0.0.1";

const packages = join(import.meta.dirname, "../../..");

/** Node with one of our programs. */
export function programArguments(name: "registry" | "vk", ...args: readonly string[]): readonly string[] {
  return [join(packages, name, "src", "main.ts"), ...args];
}

export function registryAddress({ ports }: Pick<PartContext, "ports">): string {
  return `${loopback}:${ports.registry}`;
}
