/** The status of a set: what its machines are, and what the plan says about the whole. Pure. */
import {
  addressCondition,
  connectionTypeOf,
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
import { mayLeaveCopy, type Machine } from "../machine.ts";
import type { SetPlan } from "./draft.ts";
import { allMembers, type Member } from "./members.ts";
import { isLeaving, machineOf } from "./phase.ts";
import { rememberedMachines, type World } from "./world.ts";

export function statusOf(world: World, plan: SetPlan): CocoonSetStatus {
  const { set, members, now } = world;
  const generation = set.metadata.generation ?? 0;
  const living = world.machines.filter((machine) => !machine.terminating);
  const agents = agentEntries(world, plan);
  const toolboxes = toolboxEntries(world, plan);
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
    ...addressConditions(world, generation),
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
      podless(world, plan).filter(({ vmName }) => podlessState(world, plan, vmName) === "hibernated").length,
  };
}

function degradedCondition(plan: SetPlan, observedGeneration: number): ConditionReport {
  const [first] = plan.troubles;
  return {
    type: "Degraded",
    status: first ? "True" : "False",
    reason: first?.reason ?? "AsExpected",
    message: [...new Set(plan.troubles.map(({ message }) => message))].join("; ").slice(0, 8_000),
    observedGeneration,
  };
}

/**
 * Machines without a pod that sleep or may sleep: their copy was proven, their pod went on its way to sleep, or it went
 * when nobody looked. They are listed until they have a pod again, so that nobody forgets their copies.
 */
function podless(world: World, plan: SetPlan): readonly Member[] {
  const remembered = rememberedMachines(world.set);
  return allMembers(world.members).filter((member) => {
    if (machineOf(world, member)) return false;
    const unseen = remembered.has(member.vmName) && !isLeaving(world, member);
    return plan.digests.has(member.vmName) || unseen || endsAsleep(world, member);
  });
}

function endsAsleep({ machines }: World, { podName }: Member): boolean {
  return machines.some(
    (machine) => machine.podName === podName && machine.terminating && mayLeaveCopy(machine),
  );
}

function agentEntries(world: World, plan: SetPlan): AgentStatus[] {
  const living = world.machines.flatMap((machine): AgentStatus[] => {
    const { role, member, terminating, vm } = machine;
    if (terminating || (role !== "main" && role !== "sub-agent")) return [];
    const forkedFrom = role === "sub-agent" && vm.forkFrom !== "" ? { forkedFrom: vm.forkFrom } : {};
    return [{ slot: Number(member), role, ...machineFields(machine, plan), ...forkedFrom }];
  });
  const asleep = podless(world, plan).flatMap((member): AgentStatus[] =>
    member.role === "main" || member.role === "sub-agent"
      ? [{ slot: member.slot, role: member.role, ...podlessFields(world, plan, member) }]
      : [],
  );
  return [...living, ...asleep].sort((left, right) => left.slot - right.slot);
}

function toolboxEntries(world: World, plan: SetPlan): ToolboxStatus[] {
  const living = world.machines.flatMap((machine): ToolboxStatus[] => {
    if (machine.terminating || machine.role !== "toolbox") return [];
    const { vncPort } = machine.runtime;
    return [
      {
        name: String(machine.member),
        ...machineFields(machine, plan),
        connType: connTypeOf(machine),
        ...(vncPort > 0 ? { vncPort } : {}),
      },
    ];
  });
  const asleep = podless(world, plan).flatMap((member): ToolboxStatus[] =>
    member.role === "toolbox" ? [{ name: member.name, ...podlessFields(world, plan, member) }] : [],
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
  { vm, lifecycle, sleepKey, restoreMarked }: Machine,
  plan: SetPlan,
): LifecycleState | "" {
  const woken = plan.waking.has(vm.vmName) || !sleepKey;
  const sleeps = lifecycle.state === "hibernated" || (lifecycle.state === "" && restoreMarked);
  return woken && sleeps ? "creating" : lifecycle.state;
}

function podlessFields(world: World, plan: SetPlan, { vmName }: Member) {
  const node = rememberedMachines(world.set).get(vmName)?.node ?? "";
  const digest = plan.digests.get(vmName);
  return {
    vmName,
    ...(node === "" ? {} : { nodeName: node }),
    ready: false,
    lifecycleState: podlessState(world, plan, vmName),
    ...(digest === undefined ? {} : { snapshotDigest: digest }),
  };
}

/** A copy that its machine woke from and went on is not what the machine sleeps in; without a copy nobody knows yet. */
function podlessState(world: World, plan: SetPlan, vmName: string): LifecycleState {
  const remembered = rememberedMachines(world.set).get(vmName);
  if (!plan.digests.has(vmName)) return remembered?.awake ? "ready" : "hibernating";
  if (plan.waking.has(vmName)) return "creating";
  if (remembered?.waking && !isProven(world, plan, vmName)) return "creating";
  return isSuperseded(world, plan, vmName) ? "ready" : "hibernated";
}

/** The registry was asked, and has what is remembered. */
function isProven({ tags }: World, { digests }: SetPlan, vmName: string): boolean {
  const tag = tags.get(vmName);
  return tag?.kind === "there" && tag.digest === digests.get(vmName);
}

/** Awake was the last that was seen of it, and this is the copy it had woken from. */
function isSuperseded(world: World, plan: SetPlan, vmName: string): boolean {
  const remembered = rememberedMachines(world.set).get(vmName);
  return (
    remembered !== undefined && remembered.awake && remembered.snapshotDigest === plan.digests.get(vmName)
  );
}

function connTypeOf({ pod, runtime }: Machine): ConnectionType {
  const { os, connType } = readVmSpec(pod.metadata.annotations);
  return connectionTypeOf({
    os,
    hasVncPort: runtime.vncPort > 0,
    ...(connType === "" ? {} : { override: connType as ConnectionType }),
  });
}

/** Only for sets with static toolboxes that came, or once came, without an address. */
function addressConditions(world: World, generation: number): ConditionReport[] {
  const awaiting = world.members.toolboxes.filter(({ spec }) => spec.mode === "static" && spec.awaitAddress);
  const shown = findCondition(world.set.status?.conditions, "AddressesKnown") !== undefined;
  if (awaiting.length === 0 && !shown) return [];
  const waiting = awaiting.filter((member) => {
    const { vmId = "", ip = "" } = machineOf(world, member)?.runtime ?? {};
    return vmId === "" || ip === "";
  });
  return [
    addressCondition(
      waiting.map((member) => member.name),
      generation,
    ),
  ];
}
