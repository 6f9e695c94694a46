/** The Hibernation of the older API, `cocoon.cis/v1alpha1`. */
import * as z from "zod";
import { hibernationPhases } from "../hibernation.ts";
import { legacyApiVersion } from "../keys.ts";
import { defineKind, field } from "../schema.ts";

const legacyActions = ["hibernate", "wake"] as const;
export type LegacyAction = (typeof legacyActions)[number];

const spec = z.object({
  podName: field.text("Pod whose machine is meant."),
  action: field
    .choice(
      legacyActions,
      "What is requested: hibernate puts the machine to sleep and keeps its pod, wake brings it back.",
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

const kind = defineKind({
  apiVersion: legacyApiVersion,
  kind: "Hibernation",
  description:
    "A Hibernation of the older API; a bridge keeps a cocoonset.cocoonstack.io/v1 CocoonHibernation in step with it.",
  spec,
  readSpec: spec.extend({ podName: spec.shape.podName.min(1) }),
  status,
});

export const { schema: legacyHibernationSchema, read: readLegacyHibernation } = kind;
export type LegacyHibernation = ReturnType<typeof readLegacyHibernation>;
export type LegacyHibernationStatus = z.output<typeof status>;
