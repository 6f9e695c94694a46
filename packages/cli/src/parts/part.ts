/** What every part of Cocoon on this machine is described from. */
import { join } from "node:path";
import type { Component, PkiFiles } from "@cocoon/controlplane";
import { Fault, type Abortable } from "@cocoon/core";
import type { Topology } from "../network/topology.ts";
import { partKubeconfig, type ServiceAccount } from "./identity.ts";

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
  dashboard: "dashboard",
  dashboardHealth: "dashboard",
  metricsServer: "metrics-server",
  gateway: "gateway",
  gatewayHealth: "gateway",
  sandboxRouter: "gateway",
  proxy1Health: "kube-proxy-1",
  proxy2Health: "kube-proxy-2",
  dnsHealth: "coredns",
} as const;
export type PartPort = keyof typeof portOwners;
export type PartPorts = Readonly<Record<PartPort, number>>;

/** Settings of `up` beside the parts that always run; the next `up` keeps them. */
export interface PartSettings {
  readonly metricsServer: boolean;
  readonly legacy: boolean;
  readonly agentSandbox: boolean;
  /** OpenTelemetry collector that gets the traces of the parts; empty: none. */
  readonly otlpEndpoint: string;
  readonly network: NetworkMode;
}

/** How machines are connected: `cni` to a network of their own with Services and names, `user` by forwarded ports only. */
export type NetworkMode = "cni" | "user";

export interface PartContext {
  /** Holds everything of the parts, below the platform's directory. */
  readonly directory: string;
  readonly ports: PartPorts;
  readonly settings: PartSettings;
  readonly pki: PkiFiles;
  readonly server: string;
  readonly kubeconfig: string;
  readonly programs: Readonly<Record<"metrics-server" | "kube-proxy" | "coredns", string>>;
  /** The platform's namespaces; used where the network is `cni`. */
  readonly topology: Topology;
  /** What parts and people show to the registry. */
  readonly registryToken: string;
}

export const loopback = "127.0.0.1";

const packages = join(import.meta.dirname, "../../..");

type ProgramPackage =
  | "registry"
  | "vk"
  | "operator"
  | "webhook"
  | "colocation"
  | "gateway"
  | "dashboard"
  | "cli";

/** Files that are part of the source, such as manifests. */
export function sourceFile(...names: readonly string[]): string {
  return join(packages, "..", ...names);
}

export function programArguments(name: ProgramPackage, ...args: readonly string[]): readonly string[] {
  // Most of what a part allocates dies at once: a small young generation keeps its memory small.
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

export interface ProgramPart extends Pick<
  Component,
  "name" | "summary" | "needs" | "prepare" | "secrets" | "stopGraceMs"
> {
  readonly program: Exclude<ProgramPackage, "cli">;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Who it is for the API server; absent: it does not use one. */
  readonly account?: ServiceAccount;
  /** It pushes to the registry, or reads it. */
  readonly usesRegistry?: boolean;
  /** Port of its /readyz. */
  readonly healthPort: number;
}

export function programPart(context: PartContext, part: ProgramPart): Component {
  const { program, args = [], env, account, usesRegistry = false, healthPort, secrets, ...component } = part;
  return {
    ...component,
    command: process.execPath,
    args: programArguments(program, ...args),
    env: {
      ...programEnvironment(context),
      ...(context.settings.otlpEndpoint === ""
        ? {}
        : { OTEL_EXPORTER_OTLP_ENDPOINT: context.settings.otlpEndpoint }),
      ...(account ? { KUBECONFIG: partKubeconfig(context, account) } : {}),
      ...env,
      ...(usesRegistry
        ? { OCI_REGISTRY: registryAddress(context), EPOCH_CA_CERT: context.pki.ca.certificate }
        : {}),
    },
    ...(usesRegistry || secrets
      ? { secrets: { ...secrets, ...(usesRegistry ? { EPOCH_TOKEN: context.registryToken } : {}) } }
      : {}),
    probe: (options) => probeHttp(healthPort, "/readyz", options),
  };
}

/** Throws what the part answers while it is not ready. */
// oxlint-disable-next-line max-params -- an address, and how long
export async function probeHttp(port: number, path: string, { signal }: Abortable): Promise<void> {
  const response = await fetch(`http://${loopback}:${port}${path}`, { signal });
  const text = await response.text();
  if (!response.ok) throw new Fault("unavailable", `not ready: ${text.slice(0, 300).trim()}`);
}
