/** The CocoonSet of the older API, `cocoon.cis/v1alpha1`. Objects of it are bridged to the current kind. */
import * as z from "zod";
import { conditionsSchema } from "../conditions.ts";
import { legacyApiVersion } from "../keys.ts";
import { defineKind, field } from "../schema.ts";
import { snapshotPolicies } from "../snapshot-policy.ts";

const resources = z
  .object({
    cpu: field.text("CPU limit, for example 2.").optional(),
    memory: field.text("Memory limit, for example 4Gi.").optional(),
  })
  .meta({ description: "Limits of the machine." })
  .optional();

const agent = z
  .object({
    image: field.text("Snapshot to clone the machine from.", { max: 4096 }),
    replicas: field.int32("Number of sub-agents forked from the main agent.", { min: 0 }).default(0),
    mode: field
      .choice(["clone", "run"], "How the machine starts: clone from a snapshot, run by booting an image.")
      .optional(),
    os: field.text("Operating system of the guest; linux when not set.").optional(),
    network: field.text("Network to attach the machine to.").optional(),
    storage: field.text("Size of the root disk, for example 100G.").optional(),
    serviceAccountName: field.text("Service account of the pods.").optional(),
    envFrom: z
      .array(
        z.looseObject({}).meta({
          description: "As in a container of a pod.",
          "x-kubernetes-preserve-unknown-fields": true,
        }),
      )
      .meta({ description: "Environment of the pods, from ConfigMaps and Secrets." })
      .optional(),
    resources,
  })
  .meta({ description: "The main agent and its sub-agents." });

const toolbox = z.object({
  name: field.text("Name of the toolbox within its set."),
  image: field.text("Image or snapshot of the machine.", { max: 4096 }).optional(),
  mode: field
    .choice(
      ["run", "clone", "static"],
      "How the machine starts: run boots an image, clone starts from a snapshot, static adopts a machine.",
    )
    .default("run"),
  os: field.text("Operating system of the guest: linux, android or windows.").default("linux"),
  network: field.text("Network to attach the machine to.").optional(),
  storage: field.text("Size of the root disk.").optional(),
  staticIP: field.text("Address of a static machine.").optional(),
  staticVMID: field.text("Id of a static machine.").optional(),
  vncPort: field.int32("VNC port of a static machine.").optional(),
  resources,
});

const spec = z.object({
  suspend: field.flag("Put all machines of the set to sleep.").default(false),
  nodeName: field.text("Node that all pods were bound to; today it places the main agent.").optional(),
  snapshotPolicy: field
    .choice(snapshotPolicies, "Which machines leave a snapshot when their pod is deleted.")
    .default("always"),
  agent: agent.optional(),
  toolboxes: z.array(toolbox).meta({ description: "Further machines beside the agents." }).optional(),
});

const legacySetPhases = ["Running", "Scaling", "Suspended", "Failed"] as const;
export type LegacySetPhase = (typeof legacySetPhases)[number];

const machine = {
  podName: field.text("Its pod.").optional(),
  vmName: field.text("Its name on the host.").optional(),
  vmID: field.text("Its id.").optional(),
  ip: field.text("Its address.").optional(),
  phase: field.text("Phase of its pod.").optional(),
};

const status = z.object({
  phase: field.text("Running, Scaling, Suspended or Failed.").optional(),
  readyAgents: field.int32("Agents that are ready.").optional(),
  desiredAgents: field.int32("Agents that should exist, the main agent included.").optional(),
  agents: z
    .array(
      z.object({
        slot: field.int32("0 for the main agent.").optional(),
        role: field.text("Its role: main or sub-agent.").optional(),
        ...machine,
        snapshotRef: field.text("Snapshot that the machine sleeps in.", { max: 4096 }).optional(),
        forkedFrom: field.text("Machine it was forked from.").optional(),
      }),
    )
    .meta({ description: "The agents by slot." })
    .optional(),
  toolboxes: z
    .array(
      z.object({
        name: field.text("Name of the toolbox.").optional(),
        ...machine,
        connType: field.text("How to reach it.").optional(),
        vncPort: field.int32("Its VNC port.").optional(),
      }),
    )
    .meta({ description: "The toolboxes by name." })
    .optional(),
  // Ours: where the bridge says what it waits for.
  observedGeneration: field.int64("Generation of the spec that this status describes.").optional(),
  conditions: conditionsSchema.optional(),
});

const kind = defineKind({
  apiVersion: legacyApiVersion,
  kind: "CocoonSet",
  description:
    "A CocoonSet of the older API; a bridge keeps a cocoonset.cocoonstack.io/v1 object in step with it.",
  spec,
  readSpec: spec.extend({ agent }),
  status,
});

export const { schema: legacyCocoonSetSchema, read: readLegacyCocoonSet } = kind;
export type LegacyCocoonSet = ReturnType<typeof readLegacyCocoonSet>;
export type LegacyAgent = z.output<typeof agent>;
export type LegacyToolbox = z.output<typeof toolbox>;
export type LegacyCocoonSetStatus = z.output<typeof status>;
