/** Fields of a CocoonSet that the Go systems do not know. Each is optional and does nothing when absent. */
import * as z from "zod";
import { hibernationActions } from "./hibernation.ts";
import { field } from "./schema.ts";

const setDeletionPolicies = ["Retain", "Purge"] as const;
const rolloutStrategies = ["Rolling", "OnDelete"] as const;
const expireActions = ["Delete", "Suspend"] as const;
const isolations = ["Set", "Namespace", "None"] as const;
const mainRebuilds = ["Never", "Image", "Latest"] as const;

const cronPattern = /^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+(\s+\S+){4})$/;

const scheduleSchema = z.object({
  cron: field.text("When: minute, hour, day of month, month and day of week, or a word such as @daily.", {
    min: 1,
    max: 128,
    pattern: cronPattern,
  }),
  timeZone: field
    .text("Time zone of the clock that cron means, for example Europe/Berlin; UTC when not set.", {
      max: 64,
      pattern: /^[A-Za-z][A-Za-z0-9_+/-]*$/,
    })
    .optional(),
  action: field.choice(hibernationActions, "What happens then to every machine of the set."),
});

const idleSchema = z.object({
  after: field.duration(
    "How long a machine must have been idle (CPU below 2 %, no stream open, no bytes forwarded) before it is put to sleep.",
    { min: "1m" },
  ),
});

const retentionSchema = z.object({
  after: field.duration("Age at which a snapshot may go.", { min: "1m" }).optional(),
  keep: field
    .int32("Number of the newest released snapshots per machine that stay whatever their age.", { min: 0 })
    .optional(),
});

const warmPoolSchema = z.object({
  size: field.int32("Number of clones kept ready to start at once.", { min: 0, max: 64 }),
});

const expireSchema = z.object({
  at: z.string().max(64).meta({ description: "Time at which it happens, RFC 3339.", format: "date-time" }),
  action: field.choice(expireActions, "What happens then: Delete the set, or Suspend it until at is moved."),
});

const rolloutSchema = z.object({
  strategy: field
    .choice(
      rolloutStrategies,
      "Rolling replaces machines that no longer match the spec, a few at a time; OnDelete waits until their pods are deleted.",
    )
    .optional(),
  maxUnavailable: field
    .int32("How many machines may be missing at once during a rolling replacement; 1 when not set.", {
      min: 1,
    })
    .optional(),
});

const rebuildSchema = z.object({
  main: field
    .choice(
      mainRebuilds,
      "What replaces a main agent that failed: Never (also when not set) leaves it to people, Image boots its image again, Latest starts from its own snapshot latest.",
    )
    .optional(),
  resetAfter: field
    .duration(
      "How long a rebuilt machine must be ready until its attempts are forgotten; 10m when not set.",
      {
        min: "1s",
      },
    )
    .optional(),
});

const migrationSchema = z.object({
  timeout: field
    .duration("How long a move may take until the machine returns to where it was; 10m when not set.", {
      min: "1s",
    })
    .optional(),
});

const networkSchema = z.object({
  isolation: field
    .choice(
      isolations,
      "Who may open connections to the machines: Set only machines of this set, Namespace (also when not set) pods of its namespace, None everyone who reaches them.",
    )
    .optional(),
});

export const setAdditions = {
  paused: field
    .flag("While true the operator changes nothing about this set; its status stays current.")
    .optional(),
  deletionPolicy: field
    .choice(
      setDeletionPolicies,
      "What happens to the snapshots when the set is deleted: Retain (also when not set) keeps what snapshotPolicy made, Purge removes it.",
    )
    .optional(),
  schedule: z
    .array(scheduleSchema)
    .max(32)
    .meta({
      description: "Times at which the machines are put to sleep or woken; the latest past entry decides.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
  idle: idleSchema.meta({ description: "Put idle machines to sleep." }).optional(),
  ttl: field.duration("Delete the set this long after its creation.", { min: "1m" }).optional(),
  expire: expireSchema
    .meta({ description: "Delete or suspend the set at a given time; moving the time wakes it again." })
    .optional(),
  retention: retentionSchema
    .meta({
      description:
        "How long the snapshots latest and released-… of this set are kept. The snapshot of a sleeping machine never expires.",
    })
    .optional(),
  warmPool: warmPoolSchema
    .meta({ description: "Keep clones ready so that a machine starts at once." })
    .optional(),
  rebuild: rebuildSchema.meta({ description: "How failed machines are replaced." }).optional(),
  migration: migrationSchema.meta({ description: "How the main agent is moved." }).optional(),
  network: networkSchema
    .meta({ description: "How machines are reached, where they have addresses of their own." })
    .optional(),
  rollout: rolloutSchema.meta({ description: "How machines are replaced when the spec changes." }).optional(),
};
