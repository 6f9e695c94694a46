/** SandboxTemplate, SandboxClaim and SandboxWarmPool: Sandboxes that are made ahead and handed out. */
import * as z from "zod";
import { conditionsSchema } from "../conditions.ts";
import { defineKind, field, metadataSchema, parseWith, specRequired, type ObjectMeta } from "../schema.ts";
import { blueprint, childMetadata, volumeClaimTemplates } from "./blueprint.ts";
import { sandboxExtensionsApiVersion as apiVersion } from "./keys.ts";

const rule = z
  .looseObject({})
  .meta({ description: "As in a NetworkPolicy.", "x-kubernetes-preserve-unknown-fields": true });
const injection = (what: string) =>
  field
    .choice(
      ["Disallowed", "Allowed", "Overrides"],
      `Whether claims may add ${what}: Allowed adds, Overrides also replaces.`,
    )
    .default("Disallowed");

const templateSpec = z.object({
  ...blueprint,
  networkPolicy: z
    .object({
      ingress: z.array(rule).max(256).meta({ description: "Traffic that is let in." }).optional(),
      egress: z.array(rule).max(256).meta({ description: "Traffic that is let out." }).optional(),
    })
    .meta({ description: "Rules of the NetworkPolicy; a strict default when not set." })
    .optional(),
  networkPolicyManagement: field
    .choice(["Managed", "Unmanaged"], "Whether a NetworkPolicy is kept for the template's pods.")
    .default("Managed"),
  envVarsInjectionPolicy: injection("environment variables"),
  volumeClaimTemplatesPolicy: injection("volumes"),
});

export const sandboxTemplateSchema = z
  .object({ spec: templateSpec.meta({ description: "What is wanted." }) })
  .meta({ description: "A SandboxTemplate is what the Sandboxes of warm pools and claims are made from." });

export interface SandboxTemplate {
  readonly metadata: ObjectMeta;
  readonly spec: z.output<typeof templateSpec>;
}

const templateReading = z.object({ metadata: metadataSchema, spec: templateSpec });

export function readSandboxTemplate(object: unknown): SandboxTemplate {
  return parseWith(templateReading, object, "SandboxTemplate");
}

const namedReference = (what: string) =>
  z.object({ name: field.text(`Name of the ${what}.`, { min: 1, max: 253 }) });

const lifecycle = z
  .object({
    shutdownTime: field.timestamp("When the claim expires.").optional(),
    ttlSecondsAfterFinished: field
      .int32("Seconds after the end of its pod at which the claim expires.", { min: 0 })
      .optional(),
    shutdownPolicy: field
      .choice(
        ["Delete", "DeleteForeground", "Retain"],
        "What becomes of the claim when it expires: Retain keeps it, without its Sandbox.",
      )
      .default("Retain"),
  })
  .meta({ description: "When the claim expires; never when not set." });

const claimSpec = z.object({
  warmPoolRef: namedReference("warm pool").meta({
    description: "The warm pool that the Sandbox comes from.",
  }),
  lifecycle: lifecycle.optional(),
  additionalPodMetadata: childMetadata
    .omit({ name: true })
    .meta({ description: "Labels and annotations that are added to the pod." })
    .optional(),
  env: z
    .array(
      z.object({
        name: field.text("Name of the variable.", { min: 1, max: 253 }),
        value: field.text("Its value.", { max: 32_768 }).optional(),
        containerName: field.text("Container that gets it; the first when not set.", { max: 63 }).optional(),
      }),
    )
    .max(256)
    .meta({ description: "Environment variables that the machine gets when it is handed over." })
    .optional(),
  volumeClaimTemplates: volumeClaimTemplates.optional(),
});

const claimStatus = z.object({
  conditions: conditionsSchema.optional(),
  sandbox: z
    .object({
      name: field.text("Its name.", { max: 253 }).optional(),
      podIPs: z.array(z.string().max(64)).max(16).meta({ description: "Addresses of its pod." }).optional(),
    })
    .meta({ description: "The Sandbox of the claim." })
    .optional(),
});

const claim = defineKind({
  apiVersion,
  kind: "SandboxClaim",
  description: "A SandboxClaim takes a Sandbox out of a warm pool, or has one made.",
  spec: claimSpec,
  readSpec: claimSpec,
  status: claimStatus,
  rules: [specRequired],
});

export const { schema: sandboxClaimSchema, read: readSandboxClaim } = claim;
export type SandboxClaim = ReturnType<typeof readSandboxClaim>;
export type SandboxClaimStatus = z.output<typeof claimStatus>;

const poolSpec = z.object({
  replicas: field.int32("Sandboxes that are kept ready.", { min: 0 }).default(1),
  sandboxTemplateRef: namedReference("template").meta({ description: "The template of the Sandboxes." }),
  updateStrategy: z
    .object({
      type: field
        .choice(
          ["OnReplenish", "Recreate"],
          "What happens to Sandboxes of an older template: OnReplenish keeps them, Recreate replaces them.",
        )
        .default("OnReplenish"),
    })
    .meta({ description: "How a changed template reaches the pool." })
    .optional(),
});

const poolStatus = z.object({
  replicas: field.int32("Sandboxes of the pool.").optional(),
  readyReplicas: field.int32("Sandboxes that are ready.").optional(),
  selector: field.text("Selector of the Sandboxes.").optional(),
  observedGeneration: field.int64("Generation of the spec that this status describes.").optional(),
});

const pool = defineKind({
  apiVersion,
  kind: "SandboxWarmPool",
  description: "A SandboxWarmPool keeps Sandboxes with booted machines for claims.",
  spec: poolSpec,
  readSpec: poolSpec,
  status: poolStatus,
  rules: [specRequired],
});

export const { schema: sandboxWarmPoolSchema, read: readSandboxWarmPool } = pool;
export type SandboxWarmPool = ReturnType<typeof readSandboxWarmPool>;
export type SandboxWarmPoolStatus = z.output<typeof poolStatus>;
