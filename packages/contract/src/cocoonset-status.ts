/** `status` of a CocoonSet: phases, machines, and the conditions that follow from them. */
import { formatLabelSelector, parseRequirements } from "@cocoon/core/label-selector";
import * as z from "zod";
import { conditionsSchema, type ConditionReport } from "./conditions.ts";
import { label } from "./keys.ts";
import { lifecycleStates } from "./lifecycle.ts";
import { field } from "./schema.ts";
import { connectionTypes } from "./vm-options.ts";

/**
 * Pending: main not ready. Scaling: another machine is not ready. Running: all ready. Failed: main failed for good. Migrating
 * and Waking are written before the first step.
 */
export const setPhases = [
  "Pending",
  "Scaling",
  "Running",
  "Suspending",
  "Suspended",
  "Waking",
  "Migrating",
  "Failed",
] as const;
export type SetPhase = (typeof setPhases)[number];

const machineFields = {
  podName: field.text("Its pod.", { max: 253 }).optional(),
  vmName: field.text("Its name on the host and in the registry.", { max: 253 }).optional(),
  vmID: field.text("Its id in the runtime; absent while it sleeps.", { max: 253 }).optional(),
  ip: field.text("Its address; absent while it sleeps.", { max: 64 }).optional(),
  phase: field.text("Phase of its pod.", { max: 32 }).optional(),
  // Ours:
  nodeName: field.text("Node it runs on, or slept on last.", { max: 253 }).optional(),
  ready: field.flag("Whether its pod is ready.").optional(),
  lifecycleState: field.choice(lifecycleStates, "What its kubelet reported last.").optional(),
  snapshotDigest: field.text("Digest of the snapshot it sleeps in.", { max: 256 }).optional(),
};

const agentStatusSchema = z.object({
  slot: field.int32("0 for the main agent, from 1 up for sub-agents.", { min: 0 }),
  role: field.choice(["main", "sub-agent"], "Whether it is the main agent or a sub-agent."),
  ...machineFields,
  forkedFrom: field.text("Machine it was forked from; sub-agents only.", { max: 253 }).optional(),
});

const toolboxStatusSchema = z.object({
  name: field.text("Name of the toolbox.", { max: 63 }),
  ...machineFields,
  connType: field.choice(connectionTypes, "How to reach it.").optional(),
  vncPort: field.port("Its VNC port, if it has one.").optional(),
});

const counter = (description: string) => field.int32(description, { min: 0 });

export const cocoonSetStatusSchema = z.object({
  observedGeneration: field.int64("Generation of the spec that this status describes.").optional(),
  phase: field.choice(setPhases, "Where the set as a whole stands.").optional(),
  // Upstream always writes these four, also when they are 0.
  readyAgents: counter("Agents, main included, whose pods are ready.").optional(),
  desiredAgents: counter("Agents that should exist: the main agent and the sub-agents.").optional(),
  readyToolboxes: counter("Toolboxes whose pods are ready.").optional(),
  desiredToolboxes: counter("Toolboxes that should exist.").optional(),
  agents: z
    .array(agentStatusSchema)
    .meta({
      description: "The main agent, then the sub-agents by slot; pods that are being deleted are left out.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["slot"],
    })
    .optional(),
  toolboxes: z
    .array(toolboxStatusSchema)
    .meta({
      description: "The toolboxes by name; pods that are being deleted are left out.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
  conditions: conditionsSchema.optional(),
  // Ours; the first two serve kubectl scale and autoscalers.
  subAgents: counter("Sub-agents that exist; what the scale subresource reports as replicas.").optional(),
  selector: field.text("Label selector of the sub-agents' pods, for the scale subresource.").optional(),
  hibernatedMachines: counter("Machines of the set that sleep.").optional(),
});

export type CocoonSetStatus = z.output<typeof cocoonSetStatusSchema>;
export type AgentStatus = z.output<typeof agentStatusSchema>;
export type ToolboxStatus = z.output<typeof toolboxStatusSchema>;

/** What `status.selector` says: the pods that scaling adds and removes. */
export function subAgentSelector(set: string): string {
  return formatLabelSelector(
    parseRequirements({ matchLabels: { [label.set]: set, [label.role]: "sub-agent" } }),
  );
}

/** Whether static toolboxes wait for an address that is not known yet (`awaitAddress`). */
export function addressCondition(waiting: readonly string[], observedGeneration: number): ConditionReport {
  const known = waiting.length === 0;
  return {
    type: "AddressesKnown",
    status: known ? "True" : "False",
    reason: known ? "AllKnown" : "WaitingForAddress",
    message: known ? "" : `toolboxes waiting for the address of their machine: ${waiting.join(", ")}`,
    observedGeneration,
  };
}

export interface SetCounts {
  readonly readyAgents: number;
  readonly desiredAgents: number;
  readonly readyToolboxes: number;
  readonly desiredToolboxes: number;
}

const transient: ReadonlySet<SetPhase> = new Set(["Pending", "Scaling", "Suspending", "Waking", "Migrating"]);

export function setConditions(
  phase: SetPhase,
  counts: SetCounts,
  observedGeneration: number,
): ConditionReport[] {
  const ready =
    counts.desiredAgents > 0 &&
    counts.readyAgents === counts.desiredAgents &&
    counts.readyToolboxes === counts.desiredToolboxes;
  return [
    {
      type: "Ready",
      status: ready ? "True" : "False",
      reason: ready ? "AllAgentsReady" : "AgentsNotReady",
      message: `${counts.readyAgents}/${counts.desiredAgents} agents ready, ${counts.readyToolboxes}/${counts.desiredToolboxes} toolboxes ready`,
      observedGeneration,
    },
    {
      type: "Progressing",
      status: transient.has(phase) ? "True" : "False",
      reason: transient.has(phase) ? "Reconciling" : "Stable",
      message: phase,
      observedGeneration,
    },
  ];
}
