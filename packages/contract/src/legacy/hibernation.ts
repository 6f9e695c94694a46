/** The Hibernation of the older API, `cocoon.cis/v1alpha1`. */
import * as z from "zod";
import { hibernationPhases } from "../hibernation.ts";
import { legacyApiVersion } from "../keys.ts";
import { field, parseWith, type ObjectMeta } from "../schema.ts";

export const legacyActions = ["hibernate", "wake"] as const;
export type LegacyAction = (typeof legacyActions)[number];

const spec = z.object({
  podName: field.text("Pod whose machine is meant."),
  action: field
    .choice(
      legacyActions,
      "What is asked: hibernate puts the machine to sleep and keeps its pod, wake brings it back.",
    )
    .default("hibernate"),
});

const status = z.object({
  phase: field.text(`One of ${hibernationPhases.join(", ")}.`).optional(),
  snapshotRef: field.text("Snapshot that the machine sleeps in.", { max: 4096 }).optional(),
  vmName: field.text("Name of the machine.").optional(),
  message: field.text("What happened, for people.", { max: 32_768 }).optional(),
  lastTransitionTime: field.timestamp("When the phase last changed.").optional(),
});

export const legacyHibernationSchema = z
  .object({
    spec: spec.meta({ description: "What is wanted." }).optional(),
    status: status.meta({ description: "What was found." }).optional(),
  })
  .meta({
    description:
      "A Hibernation of the older API; a bridge keeps a cocoonset.cocoonstack.io/v1 CocoonHibernation in step with it.",
  });

export type LegacyHibernationSpec = z.output<typeof spec>;
export type LegacyHibernationStatus = z.output<typeof status>;

export interface LegacyHibernation {
  readonly apiVersion: typeof legacyApiVersion;
  readonly kind: "Hibernation";
  readonly metadata: ObjectMeta;
  readonly spec: LegacyHibernationSpec;
  readonly status?: LegacyHibernationStatus | undefined;
}

const readSchema = z.object({
  metadata: z.custom<ObjectMeta>((value) => typeof value === "object" && value !== null, "is missing"),
  spec: spec.extend({ podName: spec.shape.podName.min(1) }),
  status: status.nullish(),
});

/** Throws `invalid`, naming every wrong field. */
export function readLegacyHibernation(object: unknown): LegacyHibernation {
  const read = parseWith(readSchema, object, "Hibernation of cocoon.cis/v1alpha1");
  const { metadata, spec: wanted, status: found } = read;
  return {
    apiVersion: legacyApiVersion,
    kind: "Hibernation",
    metadata,
    spec: wanted,
    ...(found ? { status: found } : {}),
  };
}
