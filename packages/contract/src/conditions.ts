/** Conditions as Kubernetes defines them: one per type, with a time that only moves when the status does. */
import * as z from "zod";
import { field } from "./schema.ts";

const conditionSchema = z.object({
  type: z
    .string()
    .max(316)
    .regex(
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
    )
    .meta({ description: "What the condition is about." }),
  status: field.choice(["True", "False", "Unknown"], "Whether it holds."),
  observedGeneration: field.int64("Generation of the object that was looked at.", { min: 0 }).optional(),
  lastTransitionTime: field.timestamp("When the status last changed."),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .meta({ description: "One word for programs." }),
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

export interface ReportOptions {
  readonly now: Date;
  /** Types whose time starts anew although their status stays: the phase clock of a hibernation. */
  readonly restart?: readonly string[];
}

/** Conditions of types that are not reported stay as they are: somebody else may own them. */
export function withConditions(
  current: readonly Condition[] | undefined,
  reports: readonly ConditionReport[],
  { now, restart = [] }: ReportOptions,
): Condition[] {
  const next = [...(current ?? [])];
  for (const report of reports) {
    const index = next.findIndex((condition) => condition.type === report.type);
    const previous = next[index];
    const keepsTime =
      previous !== undefined && previous.status === report.status && !restart.includes(report.type);
    const condition = {
      ...report,
      lastTransitionTime: keepsTime ? previous.lastTransitionTime : secondsText(now),
    };
    if (index < 0) next.push(condition);
    else next[index] = condition;
  }
  return next;
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whole seconds, as Kubernetes stores times. */
export function secondsText(at: Date): string {
  return at.toISOString().replace(/\.\d+Z$/, "Z");
}
