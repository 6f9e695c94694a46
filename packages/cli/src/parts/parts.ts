/**
 * The parts of Cocoon that run beside the control plane, and what they keep:
 *
 *   <dir>/parts/
 *     parts.json       ports, kept across down and up
 *     registry-token   what opens the registry; only its owner reads it
 *     registry/        content of the registry
 *     identities/      certificates and kubeconfigs of the parts: each has the rights of its ServiceAccount
 *     compiled/        compiled code of our programs, made again when missing
 *     images/          what machines are booted from
 *     node-<n>/        machines and snapshots of a node
 */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { findRunning, keepPorts, type Component, type PkiFiles } from "@cocoon/controlplane";
import { Fault, tryReadFile, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import { colocationPart } from "./colocation-part.ts";
import { ensureIdentities } from "./identity.ts";
import { nodeNumbers, nodePart } from "./node-part.ts";
import { portOwners, type PartContext, type PartPort, type PartPorts } from "./part.ts";
import { operatorPart } from "./operator-part.ts";
import { registryPart } from "./registry-part.ts";
import { webhookPart } from "./webhook-part.ts";

const portSchema = z.int().min(1).max(65_535);
const stateSchema = z.object({
  ports: z.partialRecord(z.enum(Object.keys(portOwners) as [PartPort, ...PartPort[]]), portSchema),
});

export interface PartsRequest {
  /** The platform's. */
  readonly directory: string;
  readonly pki: PkiFiles;
  readonly server: string;
  readonly kubeconfig: string;
  readonly kubectl: string;
  readonly path: string;
}

export function partsDirectory(directory: string): string {
  return join(directory, "parts");
}

/** Finds ports and makes secrets for the parts. Idempotent; what `stack` holds gives the port reservations back. */
export async function prepareParts(
  request: PartsRequest,
  stack: AsyncDisposableStack,
): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const ports = await keepPorts({
    owners: portOwners,
    before: (await readPorts(directory)) ?? {},
    isRunning: async (component) => (await findRunning(request.directory, component)) !== undefined,
    stack,
  });
  await writeFileAtomically(statePath(directory), `${JSON.stringify({ ports }, null, 2)}\n`, { mode: 0o600 });
  const context = { ...request, directory, ports, registryToken: await ensureToken(directory) };
  await ensureIdentities(context);
  return partsOf(context);
}

/** The parts as they were prepared last; none when they never were. Reads only. */
export async function knownParts(request: PartsRequest): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  const [ports, registryToken] = await Promise.all([readPorts(directory), readToken(directory)]);
  if (!ports || registryToken === undefined) return [];
  return partsOf({ ...request, directory, ports: ports as PartPorts, registryToken });
}

/** The parts as they would be, for people to read. The secret is not among what is shown. */
export async function plannedParts(
  request: PartsRequest,
  stack: AsyncDisposableStack,
): Promise<readonly Component[]> {
  const directory = partsDirectory(request.directory);
  const before = await readPorts(directory);
  const ports =
    before ?? (await keepPorts({ owners: portOwners, before: {}, isRunning: async () => false, stack }));
  return partsOf({ ...request, directory, ports: ports as PartPorts, registryToken: "" });
}

function partsOf(context: PartContext): readonly Component[] {
  return [
    registryPart(context),
    operatorPart(context),
    webhookPart(context),
    colocationPart(context),
    ...nodeNumbers.map((number) => nodePart(context, number)),
  ];
}

function statePath(directory: string): string {
  return join(directory, "parts.json");
}

async function readPorts(directory: string): Promise<Partial<Record<PartPort, number>> | undefined> {
  const text = await tryReadFile(statePath(directory));
  if (text === undefined) return undefined;
  try {
    return stateSchema.parse(JSON.parse(text)).ports;
  } catch (error) {
    throw new Fault(
      "invalid",
      `${statePath(directory)} is damaged; remove that one file and run the command again (ports are then chosen anew)`,
      { cause: error },
    );
  }
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
