/**
 * CocoonSets between the older API and the current one. Nothing is looked up: what depends on the cluster (addresses of
 * static machines, registry) is given by the caller.
 *
 *   older                              current
 *   resources {cpu, memory}            resources.limits (that is how they were applied)
 *   nodeName, bound all pods           nodeName, places the main agent; the rest floats
 *   static toolbox without address     awaitAddress, until status or the pod tells id and ip
 *   (no such field)                    everything else at its default
 */
import type * as z from "zod";
import type { CocoonSetSpec, CocoonSetSpecInput } from "../cocoonset-spec.ts";
import type { agentSchema, ToolboxSpec, toolboxSchema } from "../machine-spec.ts";
import type { AgentStatus, CocoonSetStatus, SetPhase, ToolboxStatus } from "../cocoonset-status.ts";
import { apiVersion } from "../keys.ts";
import type { GuestSystem } from "../vm-options.ts";
import { guestSystems } from "../vm-options.ts";
import type {
  LegacyAgent,
  LegacyCocoonSet,
  LegacyCocoonSetSpec,
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

export interface ConvertedSet {
  readonly apiVersion: typeof apiVersion;
  readonly kind: "CocoonSet";
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: CocoonSetSpecInput;
}

export interface SetConversion {
  readonly set: ConvertedSet;
  /** Static toolboxes whose address nobody knows yet; the bridge names them in a condition. */
  readonly waiting: readonly string[];
}

/** `addressOf` tells what the toolbox's pod carries; the spec wins, then the pod, then the older status. */
export function fromLegacyCocoonSet(
  legacy: LegacyCocoonSet,
  addressOf: (toolbox: string) => StaticAddress | undefined = () => undefined,
): SetConversion {
  const { name = "", namespace } = legacy.metadata;
  const hints = new Map(
    legacy.status?.toolboxes?.map(({ name: toolbox = "", ip, vmID }) => [toolbox, { ip, vmId: vmID }]),
  );
  const toolboxes = legacy.spec.toolboxes?.map((toolbox) =>
    toolboxFromLegacy(toolbox, [addressOf(toolbox.name), hints.get(toolbox.name)]),
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

/** The part of a current spec that the older API can say; the rest is left out. */
export function toLegacyCocoonSetSpec(spec: CocoonSetSpec): LegacyCocoonSetSpec {
  const { agent, toolboxes, nodeName, snapshotPolicy, suspend = false } = spec;
  return {
    suspend,
    snapshotPolicy,
    ...(nodeName ? { nodeName } : {}),
    agent: {
      image: agent.image,
      replicas: agent.replicas,
      mode: agent.mode,
      ...machineToLegacy(agent),
      ...(agent.serviceAccountName ? { serviceAccountName: agent.serviceAccountName } : {}),
      ...(agent.envFrom ? { envFrom: agent.envFrom } : {}),
    },
    ...(toolboxes === undefined ? {} : { toolboxes: toolboxes.map(toolboxToLegacy) }),
  };
}

function toolboxToLegacy(toolbox: ToolboxSpec): LegacyToolbox {
  const { name, mode, image, staticIP, staticVMID, vncPort } = toolbox;
  return {
    name,
    mode,
    ...machineToLegacy(toolbox),
    ...(image ? { image } : {}),
    ...(staticIP ? { staticIP } : {}),
    ...(staticVMID ? { staticVMID } : {}),
    ...(vncPort === undefined ? {} : { vncPort }),
  };
}

function machineToLegacy({
  os,
  network,
  storage,
  resources,
}: Pick<CocoonSetSpec["agent"], "os" | "network" | "storage" | "resources">) {
  const { cpu, memory } = resources?.limits ?? {};
  const limits = {
    ...(cpu === undefined ? {} : { cpu: String(cpu) }),
    ...(memory === undefined ? {} : { memory: String(memory) }),
  };
  return {
    os,
    ...(network ? { network } : {}),
    ...(storage === undefined ? {} : { storage: String(storage) }),
    ...(Object.keys(limits).length > 0 ? { resources: limits } : {}),
  };
}

const legacyPhaseOf: Readonly<Record<SetPhase, LegacySetPhase>> = {
  Pending: "Scaling",
  Scaling: "Scaling",
  Running: "Running",
  // Upstream said Suspended before anything slept; a client that waits for it must not be told too early.
  Suspending: "Scaling",
  Suspended: "Suspended",
  Waking: "Scaling",
  Migrating: "Scaling",
  Failed: "Failed",
};

/** The older status of a set; `snapshotOf` names the snapshot that a sleeping machine can be restored from. */
export function toLegacyCocoonSetStatus(
  status: CocoonSetStatus,
  snapshotOf: (vmName: string) => string | undefined = () => undefined,
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
    ...(phase === undefined ? {} : { phase: legacyPhaseOf[phase] }),
    readyAgents,
    desiredAgents,
    ...(agents === undefined ? {} : { agents: agents.map((agent) => agentToLegacy(agent, snapshotOf)) }),
    ...(toolboxes === undefined ? {} : { toolboxes: toolboxes.map(toolboxStatusToLegacy) }),
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    ...(conditions === undefined ? {} : { conditions }),
  };
}

function agentToLegacy(
  { slot, role, podName, vmName, vmID, ip, phase, forkedFrom }: AgentStatus,
  snapshotOf: (vmName: string) => string | undefined,
) {
  const snapshotRef = vmName === undefined ? undefined : snapshotOf(vmName);
  return { slot, role, podName, vmName, vmID, ip, phase, forkedFrom, snapshotRef };
}

function toolboxStatusToLegacy({ name, podName, vmName, vmID, ip, phase, connType, vncPort }: ToolboxStatus) {
  return { name, podName, vmName, vmID, ip, phase, connType, vncPort };
}
