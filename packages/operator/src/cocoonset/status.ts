/** The status of a set: what its machines are, and what the plan says about the whole. Pure. */
import {
  addressCondition,
  chooseConnectionType,
  findCondition,
  readVmSpec,
  setConditions,
  subAgentSelector,
  withConditions,
  type AgentStatus,
  type CocoonSetStatus,
  type ConditionReport,
  type ConnectionType,
  type LifecycleState,
  type ToolboxStatus,
} from "@cocoon/contract";
import { mayLeaveSnapshot, type Machine } from "../pod-machine.ts";
import type { SetPlan } from "./draft.ts";
import { allMembers, type Member } from "./members.ts";
import { isTerminating, findMachine } from "./phase.ts";
import { rememberedMachines, type ObservedSet } from "./observed-set.ts";

export function computeStatus(observed: ObservedSet, plan: SetPlan): CocoonSetStatus {
  const { set, members, now } = observed;
  const generation = set.metadata.generation ?? 0;
  const living = observed.machines.filter((machine) => !machine.terminating);
  const agents = agentEntries(observed, plan);
  const toolboxes = toolboxEntries(observed, plan);
  const counts = {
    readyAgents: living.filter(({ ready, role }) => ready && (role === "main" || role === "sub-agent"))
      .length,
    desiredAgents: 1 + members.subAgents.length,
    readyToolboxes: living.filter(({ ready, role }) => ready && role === "toolbox").length,
    desiredToolboxes: members.toolboxes.length,
  };
  const reports = [
    ...setConditions(plan.phase, counts, generation),
    degradedCondition(plan, generation),
    ...plan.conditions,
    ...addressConditions(observed, generation),
  ];
  return {
    observedGeneration: generation,
    phase: plan.phase,
    ...counts,
    ...(agents.length > 0 ? { agents } : {}),
    ...(toolboxes.length > 0 ? { toolboxes } : {}),
    conditions: withConditions(set.status?.conditions, reports, { now }),
    subAgents: living.filter(({ role }) => role === "sub-agent").length,
    selector: subAgentSelector(set.metadata.name ?? ""),
    hibernatedMachines:
      living.filter(({ asleep, vm }) => asleep && !plan.waking.has(vm.vmName)).length +
      podless(observed, plan).filter(({ vmName }) => podlessState(observed, plan, vmName) === "hibernated")
        .length,
  };
}

function degradedCondition(plan: SetPlan, observedGeneration: number): ConditionReport {
  const [first] = plan.problems;
  return {
    type: "Degraded",
    status: first ? "True" : "False",
    reason: first?.reason ?? "AsExpected",
    message: [...new Set(plan.problems.map(({ message }) => message))].join("; ").slice(0, 8_000),
    observedGeneration,
  };
}

/**
 * Machines without a pod that are or may be hibernated: their snapshot was proven, their pod ended while it hibernated, or
 * between two reconciles. They are listed until they have a pod again, so that their snapshots are not forgotten.
 */
function podless(observed: ObservedSet, plan: SetPlan): readonly Member[] {
  const remembered = rememberedMachines(observed.set);
  return allMembers(observed.members).filter((member) => {
    if (findMachine(observed, member)) return false;
    const unseen = remembered.has(member.vmName) && !isTerminating(observed, member);
    return plan.digests.has(member.vmName) || unseen || endsAsleep(observed, member);
  });
}

function endsAsleep({ machines }: ObservedSet, { podName }: Member): boolean {
  return machines.some(
    (machine) => machine.podName === podName && machine.terminating && mayLeaveSnapshot(machine),
  );
}

function agentEntries(observed: ObservedSet, plan: SetPlan): AgentStatus[] {
  const living = observed.machines.flatMap((machine): AgentStatus[] => {
    const { role, member, terminating, vm } = machine;
    if (terminating || (role !== "main" && role !== "sub-agent")) return [];
    const forkedFrom = role === "sub-agent" && vm.forkFrom !== "" ? { forkedFrom: vm.forkFrom } : {};
    return [{ slot: Number(member), role, ...machineFields(machine, plan), ...forkedFrom }];
  });
  const asleep = podless(observed, plan).flatMap((member): AgentStatus[] =>
    member.role === "main" || member.role === "sub-agent"
      ? [{ slot: member.slot, role: member.role, ...podlessFields(observed, plan, member) }]
      : [],
  );
  return [...living, ...asleep].sort((left, right) => left.slot - right.slot);
}

function toolboxEntries(observed: ObservedSet, plan: SetPlan): ToolboxStatus[] {
  const living = observed.machines.flatMap((machine): ToolboxStatus[] => {
    if (machine.terminating || machine.role !== "toolbox") return [];
    const { vncPort } = machine.runtime;
    return [
      {
        name: String(machine.member),
        ...machineFields(machine, plan),
        connType: readConnectionType(machine),
        ...(vncPort > 0 ? { vncPort } : {}),
      },
    ];
  });
  const asleep = podless(observed, plan).flatMap((member): ToolboxStatus[] =>
    member.role === "toolbox" ? [{ name: member.name, ...podlessFields(observed, plan, member) }] : [],
  );
  return [...living, ...asleep].sort((left, right) => (left.name < right.name ? -1 : 1));
}

function machineFields(machine: Machine, plan: SetPlan) {
  const { podName, vm, runtime, pod, node, ready } = machine;
  const state = livingState(machine, plan);
  const digest = plan.digests.get(vm.vmName);
  return {
    podName,
    ...(vm.vmName === "" ? {} : { vmName: vm.vmName }),
    ...(runtime.vmId === "" ? {} : { vmID: runtime.vmId }),
    ...(runtime.ip === "" ? {} : { ip: runtime.ip }),
    phase: pod.status?.phase ?? "Pending",
    ...(node === "" ? {} : { nodeName: node }),
    ready,
    ...(state === "" ? {} : { lifecycleState: state }),
    ...(digest === undefined ? {} : { snapshotDigest: digest }),
  };
}

/** What its kubelet reported, unless that is about a sleep which is over. */
function livingState(
  { vm, lifecycle, hibernate, restoreMarked }: Machine,
  plan: SetPlan,
): LifecycleState | "" {
  const woken = plan.waking.has(vm.vmName) || !hibernate;
  const sleeps = lifecycle.state === "hibernated" || (lifecycle.state === "" && restoreMarked);
  return woken && sleeps ? "creating" : lifecycle.state;
}

function podlessFields(observed: ObservedSet, plan: SetPlan, { vmName }: Member) {
  const node = rememberedMachines(observed.set).get(vmName)?.node ?? "";
  const digest = plan.digests.get(vmName);
  return {
    vmName,
    ...(node === "" ? {} : { nodeName: node }),
    ready: false,
    lifecycleState: podlessState(observed, plan, vmName),
    ...(digest === undefined ? {} : { snapshotDigest: digest }),
  };
}

/** A copy that its machine woke from and went on is not what the machine sleeps in; without a copy it is not known yet. */
function podlessState(observed: ObservedSet, plan: SetPlan, vmName: string): LifecycleState {
  const remembered = rememberedMachines(observed.set).get(vmName);
  if (!plan.digests.has(vmName)) return remembered?.awake ? "ready" : "hibernating";
  if (plan.waking.has(vmName)) return "creating";
  if (remembered?.waking && !isProven(observed, plan, vmName)) return "creating";
  return isSuperseded(observed, plan, vmName) ? "ready" : "hibernated";
}

/** The registry was asked, and has what is remembered. */
function isProven({ tags }: ObservedSet, { digests }: SetPlan, vmName: string): boolean {
  const tag = tags.get(vmName);
  return tag?.kind === "there" && tag.digest === digests.get(vmName);
}

/** Awake was the last that was seen of it, and this is the copy it had woken from. */
function isSuperseded(observed: ObservedSet, plan: SetPlan, vmName: string): boolean {
  const remembered = rememberedMachines(observed.set).get(vmName);
  return (
    remembered !== undefined && remembered.awake && remembered.snapshotDigest === plan.digests.get(vmName)
  );
}

function readConnectionType({ pod, runtime }: Machine): ConnectionType {
  const { os, connType } = readVmSpec(pod.metadata.annotations);
  return chooseConnectionType({
    os,
    hasVncPort: runtime.vncPort > 0,
    ...(connType === "" ? {} : { override: connType as ConnectionType }),
  });
}

/** Only for sets with static toolboxes that came, or once came, without an address. */
function addressConditions(observed: ObservedSet, generation: number): ConditionReport[] {
  const awaiting = observed.members.toolboxes.filter(
    ({ spec }) => spec.mode === "static" && spec.awaitAddress,
  );
  const shown = findCondition(observed.set.status?.conditions, "AddressesKnown") !== undefined;
  if (awaiting.length === 0 && !shown) return [];
  const waiting = awaiting.filter((member) => {
    const { vmId = "", ip = "" } = findMachine(observed, member)?.runtime ?? {};
    return vmId === "" || ip === "";
  });
  return [
    addressCondition(
      waiting.map((member) => member.name),
      generation,
    ),
  ];
}
