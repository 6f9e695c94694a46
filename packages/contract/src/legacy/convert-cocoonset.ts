/**
 * CocoonSets between the older API and the current one. Nothing is looked up: what depends on the cluster (addresses of
 * static machines, registry) is given by the caller.
 *
 *   older                              current
 *   resources {cpu, memory}            resources.limits (that is how they were applied)
 *   nodeName, bound all pods           nodeName, places the main agent; the rest floats
 *   static toolbox without address     awaitAddress, until status or the pod has id and ip
 *   (no such field)                    everything else at its default
 */
import type * as z from "zod";
import type { CocoonSetSpecInput } from "../cocoonset-spec.ts";
import type { agentSchema, toolboxSchema } from "../machine-spec.ts";
import type { AgentStatus, CocoonSetStatus, SetPhase, ToolboxStatus } from "../cocoonset-status.ts";
import { apiVersion } from "../keys.ts";
import type { GuestSystem } from "../vm-options.ts";
import { guestSystems } from "../vm-options.ts";
import type {
  LegacyAgent,
  LegacyCocoonSet,
  LegacyCocoonSetStatus,
  LegacySetPhase,
  LegacyToolbox,
} from "./cocoonset.ts";

type AgentInput = z.input<typeof agentSchema>;
type ToolboxInput = z.input<typeof toolboxSchema>;

type MachineInput = Pick<ToolboxInput, "os" | "network" | "storage" | "resources">;

export interface StaticAddress {
  readonly ip?: string | undefined;
  readonly vmId?: string | undefined;
}

/** An object of the current API as it is written for one of the older API. */
export interface Converted<Kind extends string, Spec> {
  readonly apiVersion: typeof apiVersion;
  readonly kind: Kind;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: Spec;
}

export interface SetConversion {
  readonly set: Converted<"CocoonSet", CocoonSetSpecInput>;
  /** Static toolboxes whose address is not known yet; the bridge names them in a condition. */
  readonly waiting: readonly string[];
}

/** `findAddress` tells what the toolbox's pod carries; the spec wins, then the pod, then the older status. */
export function fromLegacyCocoonSet(
  legacy: LegacyCocoonSet,
  findAddress: (toolbox: string) => StaticAddress | undefined = () => undefined,
): SetConversion {
  const { name = "", namespace } = legacy.metadata;
  const hints = new Map(
    legacy.status?.toolboxes?.map(({ name: toolbox = "", ip, vmID }) => [toolbox, { ip, vmId: vmID }]),
  );
  const toolboxes = legacy.spec.toolboxes?.map((toolbox) =>
    toolboxFromLegacy(toolbox, [findAddress(toolbox.name), hints.get(toolbox.name)]),
  );
  const { suspend, snapshotPolicy, nodeName, agent } = legacy.spec;
  return {
    set: {
      apiVersion,
      kind: "CocoonSet",
      metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
      spec: {
        ...(suspend ? { suspend } : {}),
        snapshotPolicy,
        ...(nodeName ? { nodeName } : {}),
        agent: agentFromLegacy(agent),
        ...(toolboxes === undefined ? {} : { toolboxes }),
      },
    },
    waiting: (toolboxes ?? []).filter((toolbox) => toolbox.awaitAddress).map((toolbox) => toolbox.name),
  };
}

function agentFromLegacy(agent: LegacyAgent): AgentInput {
  return {
    ...machineFromLegacy(agent),
    image: agent.image,
    replicas: agent.replicas,
    ...(agent.mode ? { mode: agent.mode } : {}),
    ...(agent.serviceAccountName ? { serviceAccountName: agent.serviceAccountName } : {}),
    ...(agent.envFrom ? { envFrom: agent.envFrom } : {}),
  };
}

function toolboxFromLegacy(
  toolbox: LegacyToolbox,
  known: readonly (StaticAddress | undefined)[],
): ToolboxInput & { name: string } {
  const { name, mode, image, vncPort } = toolbox;
  return {
    ...machineFromLegacy(toolbox),
    name,
    mode,
    ...(image ? { image } : {}),
    ...(mode === "static" ? staticFields(toolbox, known) : {}),
    ...(vncPort === undefined ? {} : { vncPort }),
  };
}

function staticFields(
  toolbox: LegacyToolbox,
  known: readonly (StaticAddress | undefined)[],
): Partial<ToolboxInput> {
  const candidates = [{ ip: toolbox.staticIP, vmId: toolbox.staticVMID }, ...known];
  const staticIP = candidates.find((each) => each?.ip)?.ip;
  const staticVMID = candidates.find((each) => each?.vmId)?.vmId;
  return {
    ...(staticIP ? { staticIP } : {}),
    ...(staticVMID ? { staticVMID } : {}),
    ...(staticIP && staticVMID ? {} : { awaitAddress: true }),
  };
}

function machineFromLegacy({ os, network, storage, resources }: LegacyAgent | LegacyToolbox): MachineInput {
  const limits = {
    ...(resources?.cpu ? { cpu: resources.cpu } : {}),
    ...(resources?.memory ? { memory: resources.memory } : {}),
  };
  return {
    ...(os && isGuestSystem(os.toLowerCase()) ? { os: os.toLowerCase() as GuestSystem } : {}),
    ...(network ? { network } : {}),
    ...(storage ? { storage } : {}),
    ...(Object.keys(limits).length > 0 ? { resources: { limits } } : {}),
  };
}

function isGuestSystem(text: string): text is GuestSystem {
  return (guestSystems as readonly string[]).includes(text);
}

const legacyPhases: Readonly<Record<SetPhase, LegacySetPhase>> = {
  Pending: "Scaling",
  Scaling: "Scaling",
  Running: "Running",
  // Upstream wrote Suspended before anything slept; a client that waits for it must not see it too early.
  Suspending: "Scaling",
  Suspended: "Suspended",
  Waking: "Scaling",
  Migrating: "Scaling",
  Failed: "Failed",
};

/** The older status of a set; `findSnapshot` names the snapshot that a sleeping machine can be restored from. */
export function toLegacyCocoonSetStatus(
  status: CocoonSetStatus,
  findSnapshot: (vmName: string) => string | undefined = () => undefined,
): LegacyCocoonSetStatus {
  const {
    phase,
    readyAgents = 0,
    desiredAgents = 0,
    agents,
    toolboxes,
    observedGeneration,
    conditions,
  } = status;
  return {
    ...(phase === undefined ? {} : { phase: legacyPhases[phase] }),
    readyAgents,
    desiredAgents,
    ...(agents === undefined ? {} : { agents: agents.map((agent) => agentToLegacy(agent, findSnapshot)) }),
    ...(toolboxes === undefined ? {} : { toolboxes: toolboxes.map(toolboxStatusToLegacy) }),
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    ...(conditions === undefined ? {} : { conditions }),
  };
}

function agentToLegacy(
  { slot, role, podName, vmName, vmID, ip, phase, forkedFrom }: AgentStatus,
  findSnapshot: (vmName: string) => string | undefined,
) {
  const snapshotRef = vmName === undefined ? undefined : findSnapshot(vmName);
  return { slot, role, podName, vmName, vmID, ip, phase, forkedFrom, snapshotRef };
}

function toolboxStatusToLegacy({ name, podName, vmName, vmID, ip, phase, connType, vncPort }: ToolboxStatus) {
  return { name, podName, vmName, vmID, ip, phase, connType, vncPort };
}
