/** The machines that a set should consist of, from its spec. */
import {
  podName,
  vmName,
  buildAgentVmSpec,
  buildToolboxVmSpec,
  type AgentSpec,
  type CocoonSet,
  type SetKey,
  type ToolboxSpec,
  type VmSpec,
} from "@cocoon/contract";
import type { MachineRole } from "@cocoon/machine";

interface Named {
  readonly podName: string;
  readonly vmName: string;
  readonly vm: VmSpec;
}

export interface AgentMember extends Named {
  readonly role: Exclude<MachineRole, "toolbox">;
  readonly slot: number;
  readonly spec: AgentSpec;
}

interface ToolboxMember extends Named {
  readonly role: "toolbox";
  readonly name: string;
  readonly spec: ToolboxSpec;
}

export type Member = AgentMember | ToolboxMember;

export interface Members {
  readonly main: AgentMember;
  readonly subAgents: readonly AgentMember[];
  readonly toolboxes: readonly ToolboxMember[];
  /** Slots behind the sub-agents that are kept ready. */
  readonly warm: readonly AgentMember[];
}

export function getSetKey({ metadata }: Pick<CocoonSet, "metadata">): SetKey {
  return { namespace: metadata.namespace ?? "", set: metadata.name ?? "" };
}

export function computeMembers(set: CocoonSet): Members {
  const { agent, toolboxes = [], warmPool } = set.spec;
  const slots = Array.from({ length: agent.replicas }, (_, index) => index + 1);
  const warm = Array.from({ length: warmPool?.size ?? 0 }, (_, index) => agent.replicas + 1 + index);
  return {
    main: agentMember(set, 0, "main"),
    subAgents: slots.map((slot) => agentMember(set, slot, "sub-agent")),
    toolboxes: toolboxes.map((toolbox) => toolboxMember(set, toolbox)),
    warm: warm.map((slot) => agentMember(set, slot, "warm")),
  };
}

function agentMember(set: CocoonSet, slot: number, role: AgentMember["role"]): AgentMember {
  const key = getSetKey(set);
  const { agent, snapshotPolicy } = set.spec;
  const forkFrom = findForkSource(set, slot);
  const name = vmName(key, slot);
  // A warm machine was not used yet: it leaves nothing behind.
  const policy = role === "warm" ? "never" : snapshotPolicy;
  const vm = buildAgentVmSpec({ agent, vmName: name, snapshotPolicy: policy, forkFrom });
  return {
    role,
    slot,
    spec: agent,
    podName: podName(key.set, slot),
    vmName: name,
    vm: slot === 0 ? { ...vm, image: resolveMainImage(agent, key) } : vm,
  };
}

/** Sub-agents are forks of the main agent; that one may be a fork of another set's. */
function findForkSource(set: CocoonSet, slot: number): string {
  const key = getSetKey(set);
  if (slot !== 0) return vmName(key, 0);
  const { forkFrom } = set.spec.agent;
  return forkFrom ? vmName({ ...key, set: forkFrom.set }, 0) : "";
}

/** `from` names a snapshot of another set: a clone of it is made exactly like one of an image. */
function resolveMainImage({ from, image }: AgentSpec, key: SetKey): string {
  if (!from) return image;
  const source = { namespace: from.namespace ?? key.namespace, set: from.set };
  return `${vmName(source, from.slot)}:${from.tag}`;
}

function toolboxMember(set: CocoonSet, toolbox: ToolboxSpec): ToolboxMember {
  const key = getSetKey(set);
  const name = vmName(key, toolbox.name);
  return {
    role: "toolbox",
    name: toolbox.name,
    spec: toolbox,
    podName: podName(key.set, toolbox.name),
    vmName: name,
    vm: buildToolboxVmSpec({ toolbox, vmName: name, snapshotPolicy: set.spec.snapshotPolicy }),
  };
}

export function memberKey(member: Member): number | string {
  return member.role === "toolbox" ? member.name : member.slot;
}

export function allMembers({ main, subAgents, toolboxes }: Members): readonly Member[] {
  return [main, ...subAgents, ...toolboxes];
}
