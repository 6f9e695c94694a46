/** `spec` of a CocoonSet: fields, defaults and the rules that concern more than one machine. */
import * as z from "zod";
import { setAdditions } from "./cocoonset-additions.ts";
import { agentSchema, toolboxSchema } from "./machine-spec.ts";
import { celRules, field } from "./schema.ts";
import { snapshotPolicies } from "./snapshot-policy.ts";

export const hibernatePolicies = ["retain", "release"] as const;

const labelValue = { max: 63, pattern: /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/ };

/** Far above real use, far below what would let one object stall the API server. */
const maxToolboxes = 512;

export const cocoonSetSpecSchema = z
  .object({
    suspend: field.flag("Put every machine of the set to sleep; false or absent wakes them.").optional(),
    snapshotPolicy: field
      .choice(
        snapshotPolicies,
        "Which machines leave a snapshot named latest when their pod is deleted: all, the main agent only, or none.",
      )
      .default("always"),
    hibernatePolicy: field
      .choice(
        hibernatePolicies,
        "What becomes of the pods of sleeping machines: retain keeps them as placeholders on the node, release deletes them once the snapshot is verified.",
      )
      .default("retain"),
    nodePool: field
      .text("Pool of VM hosts to run on: the value of node label cocoonstack.io/pool.", labelValue)
      .default("default"),
    snapshotCompatibilityClass: field
      .text(
        "Class of CPUs, as the guest sees them, that snapshots of this set can be restored on: the value of node label cocoonstack.io/snapshot-cpu-class. Can be set once and never changed.",
        labelValue,
      )
      .optional(),
    nodeName: field
      .text(
        "Node to run the main agent on; a change moves it there. Sub-agents and toolboxes are placed freely.",
        { max: 253 },
      )
      .optional(),
    agent: agentSchema.meta({ description: "The main agent and its sub-agents." }),
    toolboxes: z
      .array(toolboxSchema)
      .max(maxToolboxes)
      .meta({
        description: "Further machines beside the agents, each with a name of its own.",
        "x-kubernetes-list-type": "atomic",
        ...celRules({
          rule: "self.all(a, self.exists_one(b, b.name == a.name))",
          message: "names of toolboxes must be unique",
        }),
      })
      .optional(),
    ...setAdditions,
  })
  .meta(
    celRules(
      {
        rule: "self.hibernatePolicy != 'release' || ((!has(self.agent.replicas) || self.agent.replicas == 0) && (!has(self.toolboxes) || size(self.toolboxes) == 0))",
        message: "hibernatePolicy=release requires agent.replicas=0 and no toolboxes",
      },
      {
        rule: "!has(oldSelf.snapshotCompatibilityClass) || (has(self.snapshotCompatibilityClass) && self.snapshotCompatibilityClass == oldSelf.snapshotCompatibilityClass)",
        message: "snapshotCompatibilityClass is immutable once set",
      },
      {
        rule: "!has(self.toolboxes) || self.toolboxes.all(t, t.mode == 'static' || t.backend == self.agent.backend)",
        message: "backend of every toolbox must match spec.agent.backend",
        fieldPath: ".toolboxes",
      },
    ),
  );

export type CocoonSetSpec = z.output<typeof cocoonSetSpecSchema>;
export type CocoonSetSpecInput = z.input<typeof cocoonSetSpecSchema>;
