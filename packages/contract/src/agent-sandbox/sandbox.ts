/** The Sandbox: one machine that keeps its identity while it is suspended, resumed and handed to a claim. */
import * as z from "zod";
import { conditionsSchema } from "../conditions.ts";
import { celRules, defineKind, field, specRequired } from "../schema.ts";
import { blueprint } from "./blueprint.ts";
import { sandboxApiVersion } from "./keys.ts";

const operatingModes = ["Running", "Suspended"] as const;

const specSchema = z
  .object({
    ...blueprint,
    operatingMode: field
      .choice(operatingModes, "Running, or Suspended: the machine is hibernated with its memory.")
      .default("Running"),
    shutdownTime: field.timestamp("When the Sandbox expires; never when not set.").optional(),
    shutdownPolicy: field
      .choice(
        ["Delete", "Retain"],
        "What becomes of the Sandbox when it expires: Retain keeps it, without a pod.",
      )
      .default("Retain"),
  })
  .meta(
    celRules({
      rule: "has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",
      message: "volumeClaimTemplates is immutable",
    }),
  );

const statusSchema = z.object({
  conditions: conditionsSchema.optional(),
  service: field.text("Name of the Service.", { max: 253 }).optional(),
  serviceFQDN: field.text("Host name of the Service.").optional(),
  selector: field.text("Selector of the pod.").optional(),
  podIPs: z.array(z.string().max(64)).max(16).meta({ description: "Addresses of the pod." }).optional(),
  nodeName: field.text("Node of the pod.", { max: 253 }).optional(),
});

const kind = defineKind({
  apiVersion: sandboxApiVersion,
  kind: "Sandbox",
  description: "A Sandbox is one machine with an identity of its own, which can be suspended and resumed.",
  spec: specSchema,
  readSpec: specSchema,
  status: statusSchema,
  rules: [specRequired],
});

export const { schema: sandboxSchema, read: readSandbox } = kind;
export type Sandbox = ReturnType<typeof readSandbox>;
export type SandboxSpec = z.output<typeof specSchema>;
export type SandboxStatus = z.output<typeof statusSchema>;
