/** PodSnapshot and its manual trigger (podsnapshot.gke.io), as far as the Python SDK of agent-sandbox uses them. */
import * as z from "zod";
import { conditionsSchema } from "../conditions.ts";
import { defineKind, field, specRequired } from "../schema.ts";
import { podSnapshotApiVersion as apiVersion } from "./keys.ts";

const triggerSpec = z.object({
  targetPod: field.text("Pod, in the same namespace, whose machine is saved.", { min: 1, max: 253 }),
});
const triggerStatus = z.object({
  conditions: conditionsSchema.optional(),
  snapshotCreated: z
    .object({ name: field.text("Its name.", { max: 253 }) })
    .meta({ description: "The PodSnapshot that was made." })
    .optional(),
});

const trigger = defineKind({
  apiVersion,
  kind: "PodSnapshotManualTrigger",
  description: "A PodSnapshotManualTrigger has a snapshot made of the machine of one pod, which continues.",
  spec: triggerSpec,
  readSpec: triggerSpec,
  status: triggerStatus,
  rules: [specRequired],
});

export const { schema: podSnapshotTriggerSchema, read: readPodSnapshotTrigger } = trigger;
export type PodSnapshotTrigger = ReturnType<typeof readPodSnapshotTrigger>;

const snapshotSpec = z.object({
  vmName: field.text("Machine that it was made of; its repository in the registry.", { max: 253 }).optional(),
  tag: field.text("Tag of the snapshot in the registry.", { max: 128 }).optional(),
  digest: field.text("Digest of the snapshot.", { max: 256 }).optional(),
});
const snapshotStatus = z.object({ conditions: conditionsSchema.optional() });

const snapshot = defineKind({
  apiVersion,
  kind: "PodSnapshot",
  description: "A PodSnapshot is a snapshot of a machine in the registry; deleting it removes the snapshot.",
  spec: snapshotSpec,
  readSpec: snapshotSpec,
  status: snapshotStatus,
  rules: [specRequired],
});

export const { schema: podSnapshotSchema, read: readPodSnapshot } = snapshot;
export type PodSnapshot = ReturnType<typeof readPodSnapshot>;
