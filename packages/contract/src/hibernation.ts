/** The CocoonHibernation: the wish that one pod's machine sleeps or wakes. It is named like its pod. */
import * as z from "zod";
import { conditionsSchema, type ConditionReport } from "./conditions.ts";
import { hibernationActions, type HibernationAction } from "./hibernation-words.ts";
import { apiVersion } from "./keys.ts";
import { celRules, field, parseWith, withoutBlanks, type ObjectMeta } from "./schema.ts";

export const hibernationPhases = [
  "Pending",
  "Hibernating",
  "Hibernated",
  "Waking",
  "Active",
  "Failed",
] as const;
export type HibernationPhase = (typeof hibernationPhases)[number];

export const hibernationDeletionPolicies = ["Retain", "Wake"] as const;

const hibernationSpecSchema = z.object({
  podRef: z
    .object({
      name: z.string().min(1).max(253).meta({ description: "Name of the pod." }),
    })
    .meta({
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
  attempts: field.int32("Attempts made for the current wish.", { min: 0 }).optional(),
  observedRetry: field
    .text("Text of the annotation retry that the last attempt was made for.", { max: 253 })
    .optional(),
});

/** The whole object as the API server checks it. */
export const cocoonHibernationSchema = z
  .object({
    spec: hibernationSpecSchema.meta({ description: "What is wanted." }).optional(),
    status: hibernationStatusSchema
      .meta({ description: "What was found; written by the operator." })
      .optional(),
  })
  .meta({
    description:
      "A CocoonHibernation puts the machine of one pod to sleep, or wakes it. It is named like the pod.",
    ...celRules(
      {
        rule: "has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",
        message: "spec is required",
        optionalOldSelf: true,
      },
      {
        rule: "oldSelf.hasValue() || !has(self.spec) || self.metadata.name == self.spec.podRef.name",
        message: "metadata.name must equal spec.podRef.name (one CocoonHibernation per pod, named after it)",
        optionalOldSelf: true,
      },
    ),
  });

export type CocoonHibernationSpec = z.output<typeof hibernationSpecSchema>;
export type CocoonHibernationStatus = z.output<typeof hibernationStatusSchema>;

export interface CocoonHibernation {
  readonly apiVersion: typeof apiVersion;
  readonly kind: "CocoonHibernation";
  readonly metadata: ObjectMeta;
  readonly spec: CocoonHibernationSpec;
  readonly status?: CocoonHibernationStatus | undefined;
}

const readSchema = z.object({
  metadata: z.custom<ObjectMeta>((value) => typeof value === "object" && value !== null, "is missing"),
  spec: z.preprocess(withoutBlanks, hibernationSpecSchema),
  status: hibernationStatusSchema.nullish(),
});

/** Throws `invalid`, naming every wrong field. */
export function readCocoonHibernation(object: unknown): CocoonHibernation {
  const { metadata, spec, status } = parseWith(readSchema, object, "CocoonHibernation");
  return { apiVersion, kind: "CocoonHibernation", metadata, spec, ...(status ? { status } : {}) };
}

/**
 * The condition Ready of a phase. Its time doubles as the phase clock: it restarts whenever a transition
 * (Hibernating, Waking) is entered from another phase, and budgets are measured from it.
 */
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

/** Whether entering `next` starts the phase clock anew. */
export function restartsPhaseClock(previous: HibernationPhase | undefined, next: HibernationPhase): boolean {
  return (next === "Hibernating" || next === "Waking") && previous !== next;
}

/** The phase that fulfils a wish. */
export function phaseOfDesire(desire: HibernationAction): HibernationPhase {
  return desire === "Hibernate" ? "Hibernated" : "Active";
}
