/**
 * The parts of Cocoon that run beside the control plane, and what they keep:
 *
 *   <dir>/parts/
 *     parts.json       ports and settings, kept across down and up
 *     registry-token   what opens the registry; only its owner reads it
 *     gateway-key      an API key of the gateway for namespace default; only its owner reads it
 *     registry/        content of the registry
 *     identities/      certificates and kubeconfigs of the parts: each has the rights of its ServiceAccount
 *     compiled/        compiled code of our programs, made again when missing
 *     images/          what machines are booted from
 *     node-<n>/        machines and snapshots of a node
 *     network/         the machines' network, where it is a cluster's; see cluster-network.ts
 */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { damagedStateFix, findRunning, keepPorts, type Component } from "@cocoon/controlplane";
import { tryReadFile, tryReadJson, writeFileAtomically, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { colocationPart } from "./colocation-part.ts";
import { gatewayPart } from "./gateway-part.ts";
import { dashboardPart } from "./dashboard-part.ts";
import { ensureIdentities } from "./identity.ts";
import { describeTopology, nodeNumbers } from "../network/topology.ts";
import { ensureClusterNetwork, relayedPorts, relayPart, uplinkPart } from "./cluster-network.ts";
import { nodePart } from "./node-part.ts";
import {
  loopback,
  portOwners,
  type NetworkMode,
  type PartContext,
  type PartPort,
  type PartPorts,
  type PartSettings,
} from "./part.ts";
import { metricsServerPart } from "./metrics-server-part.ts";
import { operatorPart } from "./operator-part.ts";
import { registryPart } from "./registry-part.ts";
import { corednsPart, kubeProxyPart } from "./service-parts.ts";
import { webhookPart } from "./webhook-part.ts";

const stateSchema = z.object({
  ports: z.partialRecord(
    z.enum(Object.keys(portOwners) as [PartPort, ...PartPort[]]),
    z.int().min(1).max(65_535),
  ),
  settings: z
    .object({
      metricsServer: z.boolean().default(false),
      legacy: z.boolean().default(false),
      agentSandbox: z.boolean().default(false),
      otlpEndpoint: z.string().default(""),
      network: z.enum(["cni", "user"]).default("user"), // what every platform had before there was a choice
    })
    .prefault({}),
});
type PartsState = z.infer<typeof stateSchema>;

export interface PartsRequest extends Pick<PartContext, "pki" | "server" | "kubeconfig" | "programs"> {
  /** The platform's. */
  readonly directory: string;
  /** What is absent stays as it was. */
  readonly settings?: Partial<PartSettings> | undefined;
}

export function partsDirectory(directory: string): string {
  return join(directory, "parts");
}

/** Finds ports, makes secrets and namespaces for the parts. Idempotent; `stack` owns the port reservations. */
export async function prepareParts(
  request: PartsRequest,
  { stack, signal }: Abortable & { readonly stack: AsyncDisposableStack },
): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const before = await readState(directory);
  const settings = { ...stateSchema.shape.settings.parse(before?.settings), ...request.settings };
  const ports = await keepPorts({
    owners: settings.network === "cni" ? { ...portOwners, ...relayedPorts } : portOwners,
    before: before?.ports ?? {},
    isRunning: async (component) => (await findRunning(request.directory, component)) !== undefined,
    stack,
  });
  const state = JSON.stringify({ ports, settings } satisfies PartsState, null, 2);
  await writeFileAtomically(statePath(directory), `${state}\n`, { mode: 0o600 });
  const registryToken = await ensureToken(directory);
  const context = { ...toContext(request), ports, settings, registryToken };
  await ensureIdentities(context);
  if (settings.network === "cni") await ensureClusterNetwork(context, { signal });
  return describeParts(context);
}

/** The parts as they were prepared last; none when they never were. Reads only. */
export async function knownParts(request: PartsRequest): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  const [state, registryToken] = await Promise.all([readState(directory), readToken(directory)]);
  if (!state || registryToken === undefined) return [];
  const { ports, settings } = state;
  return describeParts({ ...toContext(request), ports: ports as PartPorts, settings, registryToken });
}

/** The parts as they would be, for people to read. The secret is not among what is shown. */
export async function plannedParts(
  request: PartsRequest,
  stack: AsyncDisposableStack,
): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  const before = await readState(directory);
  const isRunning = async () => false;
  const ports = before?.ports ?? (await keepPorts({ owners: portOwners, before: {}, isRunning, stack }));
  const settings = { ...stateSchema.shape.settings.parse(before?.settings), ...request.settings };
  return describeParts({ ...toContext(request), ports: ports as PartPorts, settings, registryToken: "" });
}

function toContext(request: PartsRequest): Omit<PartContext, "ports" | "settings" | "registryToken"> {
  const topology = describeTopology(request.directory);
  return { ...request, directory: partsDirectory(request.directory), topology };
}

function describeParts(context: PartContext): readonly Component[] {
  return [
    registryPart(context),
    operatorPart(context),
    webhookPart(context),
    colocationPart(context),
    dashboardPart(context),
    ...nodeNumbers.map((number) => nodePart(context, number)),
    gatewayPart(context),
    ...(context.settings.metricsServer ? [metricsServerPart(context)] : []),
    ...(context.settings.network === "cni" ? describeNetwork(context) : []),
  ];
}

function describeNetwork(context: PartContext): readonly Component[] {
  return [
    uplinkPart(context),
    relayPart(context),
    ...context.topology.nodes.map((node) => kubeProxyPart(context, node)),
    corednsPart(context),
  ];
}

/** The network of an earlier `up`; undefined where there was none. */
export async function findNetworkMode(directory: string): Promise<NetworkMode | undefined> {
  return (await readState(partsDirectory(directory)))?.settings.network;
}

/** Whether an earlier `up` enabled it. */
export async function hasMetricsServer(directory: string): Promise<boolean> {
  return (await readState(partsDirectory(directory)))?.settings.metricsServer ?? false;
}

/** Where the router of agent-sandbox listens; undefined where no `up` enabled it. */
export async function findSandboxRouterUrl(directory: string): Promise<string | undefined> {
  const state = await readState(partsDirectory(directory));
  const port = state?.settings.agentSandbox ? state.ports.sandboxRouter : undefined;
  return port === undefined ? undefined : `http://${loopback}:${port}`;
}

/** Where the gateway listens; undefined where an earlier version made the parts. */
export async function findGatewayUrl(directory: string): Promise<string | undefined> {
  const port = (await readState(partsDirectory(directory)))?.ports.gateway;
  return port === undefined ? undefined : `http://${loopback}:${port}`;
}

function statePath(directory: string): string {
  return join(directory, "parts.json");
}

function readState(directory: string): Promise<PartsState | undefined> {
  return tryReadJson(statePath(directory), stateSchema, damagedStateFix);
}

function tokenPath(directory: string): string {
  return join(directory, "registry-token");
}

async function readToken(directory: string): Promise<string | undefined> {
  return (await tryReadFile(tokenPath(directory)))?.trim();
}

async function ensureToken(directory: string): Promise<string> {
  const known = await readToken(directory);
  if (known) return known;
  const made = randomBytes(24).toString("base64url");
  await writeFileAtomically(tokenPath(directory), `${made}\n`, { mode: 0o600 });
  return made;
}
