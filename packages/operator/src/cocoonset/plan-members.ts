/** Toolboxes, sub-agents and spare machines: create what is missing, look at what is there, name what is too much. */
import { annotation, label, legacyLabel } from "@cocoon/contract";
import { neverLived, type Machine } from "../machine.ts";
import type { Draft } from "./draft.ts";
import { advisoryChanges } from "./drift.ts";
import type { AgentMember, Member } from "./members.ts";
import { isLeaving, machineOf } from "./phase.ts";
import { createFrom, preferred, startOf } from "./plan-creation.ts";
import type { Tools } from "./plan-running.ts";
import { requiredNode } from "./pod-template.ts";

/** Each of these returns the machines that the spec no longer asks for. */
export function planToolboxes(draft: Draft, tools: Tools): readonly Machine[] {
  const { world } = draft;
  const { toolboxes } = world.members;
  for (const member of toolboxes) {
    const machine = machineOf(world, member);
    if (machine) triage(draft, { member, machine, tools });
    else if (!isLeaving(world, member)) planNewToolbox(draft, member);
  }
  const wanted = new Set(toolboxes.map((member) => member.podName));
  return livingOf(draft, "toolbox").filter(({ podName }) => !wanted.has(podName));
}

function planNewToolbox(draft: Draft, member: Member): void {
  const start = startOf(draft, member);
  if (start.kind === "wait") return;
  const restore = start.kind === "restore";
  createFrom(draft, member, { restore, placement: restore ? preferred(start.node) : { kind: "anywhere" } });
}

export function planSubAgents(draft: Draft, tools: Tools): readonly Machine[] {
  const { world } = draft;
  const { subAgents } = world.members;
  for (const member of subAgents) {
    const machine = machineOf(world, member);
    if (machine?.role === "warm") promote(draft, member, machine);
    else if (machine && isStranded(draft, machine))
      draft.do({
        kind: "deletePod",
        machine,
        why: "the machine it is to be forked from is on another node now",
      });
    else if (machine) triage(draft, { member, machine, tools });
    else if (!isLeaving(world, member)) planNewSubAgent(draft, member, tools);
  }
  return livingOf(draft, "sub-agent")
    .filter(({ member }) => Number(member) > subAgents.length)
    .sort((left, right) => Number(left.member) - Number(right.member));
}

/** A fork needs its source: running, and on the same node. A machine that slept needs neither. */
function planNewSubAgent(draft: Draft, member: AgentMember, { rebuilds }: Tools): void {
  const main = machineOf(draft.world, draft.world.members.main);
  const forkable = main !== undefined && main.ready && main.node !== "";
  rebuilds.noteMissing(member);
  if (!forkable && !draft.remembered.has(member.vmName)) return;
  const start = startOf(draft, member);
  if (start.kind === "restore")
    createFrom(draft, member, { restore: true, placement: preferred(start.node || (main?.node ?? "")) });
  else if (start.kind === "fresh" && forkable)
    createFrom(draft, member, { restore: false, placement: { kind: "required", node: main.node } });
}

/** It was never there, and cannot come: its source moved before it was forked. */
function isStranded({ world }: Draft, machine: Machine): boolean {
  const main = machineOf(world, world.members.main);
  if (!main?.ready || main.node === "" || machine.vm.forkFrom !== main.vm.vmName) return false;
  const place = machine.node || requiredNode(machine.pod);
  return neverLived(machine) && place !== "" && place !== main.node;
}

/** Spare machines are sub-agents of slots that nobody asked for yet: a larger set takes them over as they are. */
export function planWarm(draft: Draft): readonly Machine[] {
  const { world } = draft;
  const main = machineOf(world, world.members.main);
  const complete = world.members.subAgents.every((member) => machineOf(world, member));
  for (const member of world.members.warm) {
    const missing = !machineOf(world, member) && !isLeaving(world, member);
    if (!missing || !complete || !main?.ready || main.node === "") continue;
    if (startOf(draft, member).kind === "fresh")
      createFrom(draft, member, { restore: false, placement: { kind: "required", node: main.node } });
  }
  const wanted = new Set(world.members.warm.map((member) => member.podName));
  const taken = new Set(world.members.subAgents.map((member) => member.podName));
  return livingOf(draft, "warm").filter(
    (machine) =>
      machine.failed ||
      isStranded(draft, machine) ||
      (!wanted.has(machine.podName) && !taken.has(machine.podName)),
  );
}

function promote(draft: Draft, member: AgentMember, machine: Machine): void {
  const role = {
    [label.role]: "sub-agent",
    ...(draft.world.legacyKeys ? { [legacyLabel.role]: "sub-agent" } : {}),
  };
  draft.do({
    kind: "changePod",
    machine,
    labels: role,
    annotations: { ...advisoryChanges(member, machine), [annotation.generation]: String(draft.generation) },
  });
}

function livingOf({ world }: Draft, role: Machine["role"]): readonly Machine[] {
  return world.machines.filter((machine) => machine.role === role && !machine.terminating);
}

interface Triage {
  readonly member: Member;
  readonly machine: Machine;
  readonly tools: Tools;
}

function triage(draft: Draft, { member, machine, tools }: Triage): void {
  if (machine.role !== member.role) {
    draft.trouble("NameConflict", `pod ${machine.podName} has the labels of another machine of this set`);
    return;
  }
  if (machine.deadLetter) tools.rebuilds.considerDeadLetter(member, machine);
  else if (machine.failed) tools.rebuilds.consider(member, machine);
  else {
    tools.rebuilds.considerHealthy(member, machine);
    tools.rollout.consider(member, machine);
  }
}
