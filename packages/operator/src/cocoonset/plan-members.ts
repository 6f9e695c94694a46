/** Toolboxes, sub-agents and spare machines: create what is missing, look at what is there, name what is too much. */
import { annotation, label, legacyLabel } from "@cocoon/contract";
import { neverLived, type Machine } from "../pod-machine.ts";
import type { Draft } from "./draft.ts";
import { advisoryChanges } from "./drift.ts";
import type { AgentMember, Member } from "./members.ts";
import { isTerminating, findMachine } from "./phase.ts";
import { createFrom, preferred, planStart, required, waitsForHolder } from "./plan-creation.ts";
import type { Tools } from "./plan-running.ts";
import { requiredNode } from "./pod-template.ts";

/** Each of these returns the machines that the spec no longer requests. */
export function planToolboxes(draft: Draft, tools: Tools): readonly Machine[] {
  const { observed } = draft;
  const { toolboxes } = observed.members;
  for (const member of toolboxes) {
    const machine = findMachine(observed, member);
    if (machine) triage(draft, { member, machine, tools });
    else if (!isTerminating(observed, member)) planNewToolbox(draft, member);
  }
  const wanted = new Set(toolboxes.map((member) => member.podName));
  return findByRole(draft, "toolbox").filter(({ podName }) => !wanted.has(podName));
}

function planNewToolbox(draft: Draft, member: Member): void {
  const start = planStart(draft, member);
  if (start.kind === "wait") return;
  const restore = start.kind === "restore";
  createFrom(draft, member, { restore, placement: restore ? preferred(start.node) : required(start.node) });
}

export function planSubAgents(draft: Draft, tools: Tools): readonly Machine[] {
  const { observed } = draft;
  const { subAgents } = observed.members;
  for (const member of subAgents) {
    const machine = findMachine(observed, member);
    if (machine?.role === "warm") promote(draft, member, machine);
    else if (machine && isStranded(draft, machine))
      draft.deletePod(machine, "the machine that it is forked from moved or hibernated before it was made");
    else if (machine) triage(draft, { member, machine, tools });
    else if (!isTerminating(observed, member)) planNewSubAgent(draft, member, tools);
  }
  return findByRole(draft, "sub-agent")
    .filter(({ member }) => Number(member) > subAgents.length)
    .sort((left, right) => Number(left.member) - Number(right.member));
}

/** A fork needs its source: running, and on the same node. A machine that slept needs neither. */
function planNewSubAgent(draft: Draft, member: AgentMember, { rebuilds }: Tools): void {
  const main = findMachine(draft.observed, draft.observed.members.main);
  const mainNode = main?.node ?? "";
  const forkable = main?.ready === true && mainNode !== "";
  rebuilds.noteMissing(member);
  if (!forkable && !draft.remembered.has(member.vmName)) return;
  const start = planStart(draft, member);
  if (start.kind === "wait") return;
  const node = start.node || mainNode;
  if (start.kind === "restore") createFrom(draft, member, { restore: true, placement: preferred(node) });
  else if (forkable || start.node !== "")
    createFrom(draft, member, { restore: false, placement: required(node) });
}

/** It was never there, and cannot come: its source moved or hibernated before it was forked. */
function isStranded(draft: Draft, machine: Machine): boolean {
  const { observed } = draft;
  if (!neverLived(machine) || waitsForHolder(draft, machine)) return false;
  const main = findMachine(observed, observed.members.main);
  if (!main || machine.vm.forkFrom !== main.vm.vmName) return false;
  // It is made again once its source runs, which may be days from now.
  if (main.asleep) return true;
  const place = machine.node || requiredNode(machine.pod);
  return main.ready && main.node !== "" && place !== "" && place !== main.node;
}

/** Spare machines are sub-agents of slots that are not requested yet: a larger set takes them over as they are. */
export function planWarm(draft: Draft): readonly Machine[] {
  const { observed } = draft;
  const main = findMachine(observed, observed.members.main);
  const complete = observed.members.subAgents.every((member) => findMachine(observed, member));
  for (const member of observed.members.warm) {
    const missing = !findMachine(observed, member) && !isTerminating(observed, member);
    if (!missing || !complete || !main?.ready || main.node === "") continue;
    if (planStart(draft, member).kind === "fresh")
      createFrom(draft, member, { restore: false, placement: { kind: "required", node: main.node } });
  }
  const wanted = new Set(observed.members.warm.map((member) => member.podName));
  const taken = new Set(observed.members.subAgents.map((member) => member.podName));
  return findByRole(draft, "warm").filter(
    (machine) =>
      machine.failed ||
      isStranded(draft, machine) ||
      (!wanted.has(machine.podName) && !taken.has(machine.podName)),
  );
}

function promote(draft: Draft, member: AgentMember, machine: Machine): void {
  const role = {
    [label.role]: "sub-agent",
    ...(draft.observed.legacyKeys ? { [legacyLabel.role]: "sub-agent" } : {}),
  };
  draft.do({
    kind: "changePod",
    machine,
    labels: role,
    annotations: { ...advisoryChanges(member, machine), [annotation.generation]: String(draft.generation) },
  });
}

function findByRole({ observed }: Draft, role: Machine["role"]): readonly Machine[] {
  return observed.machines.filter((machine) => machine.role === role && !machine.terminating);
}

interface Triage {
  readonly member: Member;
  readonly machine: Machine;
  readonly tools: Tools;
}

function triage(draft: Draft, { member, machine, tools }: Triage): void {
  if (machine.role !== member.role) {
    draft.problem("NameConflict", `pod ${machine.podName} has the labels of another machine of this set`);
    return;
  }
  if (machine.deadLetter) tools.rebuilds.considerDeadLetter(member, machine);
  else if (machine.failed) tools.rebuilds.consider(member, machine);
  else {
    tools.rebuilds.considerHealthy(member, machine);
    tools.rollout.consider(member, machine);
  }
}
