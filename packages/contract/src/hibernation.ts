/** The CocoonHibernation: the request that the machine of one pod hibernates or wakes. It is named like its pod. */
import * as z from "zod";
import { conditionsSchema, type ConditionReport } from "./conditions.ts";
import { apiVersion } from "./keys.ts";
import { celRules, defineKind, field, specRequired, withoutBlanks } from "./schema.ts";

export const hibernationActions = ["Hibernate", "Wake"] as const;
export type HibernationAction = (typeof hibernationActions)[number];

export const hibernationPhases = [
  "Pending",
  "Hibernating",
  "Hibernated",
  "Waking",
  "Active",
  "Failed",
] as const;
export type HibernationPhase = (typeof hibernationPhases)[number];

const hibernationDeletionPolicies = ["Retain", "Wake"] as const;

const hibernationSpecSchema = z.object({
  podRef: z.object({ name: field.text("Name of the pod.", { min: 1, max: 253 }) }).meta({
    description: "The pod, in the same namespace, whose machine is meant. Cannot be changed.",
    ...celRules({ rule: "self == oldSelf", message: "spec.podRef is immutable" }),
  }),
  desire: field.choice(hibernationActions, "What the machine should do."),
  // Ours:
  deletionPolicy: field
    .choice(
      hibernationDeletionPolicies,
      "What happens when this object is deleted while the machine sleeps: Retain (also when not set) leaves the machine asleep and its snapshot in place, Wake wakes it first.",
    )
    .optional(),
  timeout: field
    .duration(
      "How long going to sleep or waking may take before it counts as failed; 3m and 5m when not set.",
      { min: "10s" },
    )
    .optional(),
});

const hibernationStatusSchema = z.object({
  observedGeneration: field.int64("Generation of the spec that this status describes.").optional(),
  phase: field.choice(hibernationPhases, "Where the machine stands.").optional(),
  vmName: field.text("Name of the machine.", { max: 253 }).optional(),
  conditions: conditionsSchema.optional(),
  // Ours:
  snapshotDigest: field.text("Digest of the snapshot the machine sleeps in.", { max: 256 }).optional(),
  attempts: field.int32("Attempts made for the current desired state.", { min: 0 }).optional(),
  observedRetry: field
    .text("Text of the annotation retry that the last attempt was made for.", { max: 253 })
    .optional(),
});

const kind = defineKind({
  apiVersion,
  kind: "CocoonHibernation",
  description:
    "A CocoonHibernation puts the machine of one pod to sleep, or wakes it. It is named like the pod.",
  spec: hibernationSpecSchema,
  readSpec: z.preprocess(withoutBlanks, hibernationSpecSchema),
  status: hibernationStatusSchema,
  rules: [
    specRequired,
    {
      rule: "oldSelf.hasValue() || !has(self.spec) || self.metadata.name == self.spec.podRef.name",
      message: "metadata.name must equal spec.podRef.name (one CocoonHibernation per pod, named after it)",
      optionalOldSelf: true,
    },
  ],
});

export const { schema: cocoonHibernationSchema, read: readCocoonHibernation } = kind;
export type CocoonHibernation = ReturnType<typeof readCocoonHibernation>;
export type CocoonHibernationSpec = z.output<typeof hibernationSpecSchema>;
export type CocoonHibernationStatus = z.output<typeof hibernationStatusSchema>;

/** The condition Ready of a phase. Its time is the phase clock: it restarts when Hibernating or Waking is entered. */
export function hibernationCondition(
  phase: HibernationPhase,
  observedGeneration: number,
  message: string = phase,
): ConditionReport {
  const done = phase === "Hibernated" || phase === "Active";
  const unfinished = phase === "Failed" ? "Failed" : "Pending";
  return {
    type: "Ready",
    status: done ? "True" : "False",
    reason: done ? "Done" : unfinished,
    message,
    observedGeneration,
  };
}

export function restartsPhaseClock(previous: HibernationPhase | undefined, next: HibernationPhase): boolean {
  return (next === "Hibernating" || next === "Waking") && previous !== next;
}

export function getDesiredPhase(desire: HibernationAction): HibernationPhase {
  return desire === "Hibernate" ? "Hibernated" : "Active";
}
