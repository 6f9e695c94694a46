/** Conditions as Kubernetes defines them: one per type, with a time that only moves when the status does. */
import { mergeConditions, type MergeOptions } from "@cocoon/core/conditions";
import * as z from "zod";
import { field } from "./schema.ts";

const conditionSchema = z.object({
  type: field.text("What the condition is about.", {
    max: 316,
    pattern:
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
  }),
  status: field.choice(["True", "False", "Unknown"], "Whether it holds."),
  observedGeneration: field.int64("Generation of the object that was looked at.", { min: 0 }).optional(),
  lastTransitionTime: field.timestamp("When the status last changed."),
  reason: field.text("One word for programs.", {
    min: 1,
    pattern: /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/,
  }),
  message: field.text("A sentence for people; may be empty.", { max: 32_768 }),
});

export const conditionsSchema = z
  .array(conditionSchema)
  .max(32)
  .meta({
    description: "What is known about the object, one entry per type.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
  });

export type Condition = z.output<typeof conditionSchema>;

export interface ConditionReport {
  readonly type: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration: number;
}

/** Conditions of types that are not reported stay as they are: they may belong to other writers. */
export function withConditions(
  current: readonly Condition[] | undefined,
  reports: readonly ConditionReport[],
  options: MergeOptions,
): Condition[] {
  return mergeConditions(current, reports, options);
}
