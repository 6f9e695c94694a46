/** The CocoonSet: one main machine, its forks, and toolboxes beside them. */
import * as z from "zod";
import { cocoonSetSpecSchema, type CocoonSetSpec } from "./cocoonset-spec.ts";
import { cocoonSetStatusSchema, type CocoonSetStatus } from "./cocoonset-status.ts";
import { apiVersion } from "./keys.ts";
import { snapshotPolicies, type SnapshotPolicy } from "./snapshot-policy.ts";
import { celRules, parseWith, withoutBlanks, type ObjectMeta } from "./schema.ts";

export interface CocoonSet {
  readonly apiVersion: typeof apiVersion;
  readonly kind: "CocoonSet";
  readonly metadata: ObjectMeta;
  readonly spec: CocoonSetSpec;
  readonly status?: CocoonSetStatus | undefined;
}

/** The whole object as the API server checks it. */
export const cocoonSetSchema = z
  .object({
    spec: cocoonSetSpecSchema.meta({ description: "What is wanted." }).optional(),
    status: cocoonSetStatusSchema
      .meta({ description: "What was found; written by the operator." })
      .optional(),
  })
  .meta({
    description:
      "A CocoonSet runs a main machine, sub-agents forked from it and toolboxes beside it, each as a pod on a VM host.",
    ...celRules(
      {
        // An object from before this rule keeps being editable, so that it can be deleted.
        rule: "has(self.spec) || (oldSelf.hasValue() && !has(oldSelf.value().spec))",
        message: "spec is required",
        optionalOldSelf: true,
      },
      {
        rule: "oldSelf.hasValue() || size(self.metadata.name) <= 63",
        message: "metadata.name must be no more than 63 characters because it becomes a label of the pods",
        optionalOldSelf: true,
      },
    ),
  });

const readSchema = z.object({
  metadata: z.custom<ObjectMeta>((value) => typeof value === "object" && value !== null, "is missing"),
  spec: z.preprocess(readableSpec, cocoonSetSpecSchema),
  status: cocoonSetStatusSchema.nullish(),
});

/**
 * A CocoonSet from the API server, with every default filled in. Objects that predate a default, or hold an empty
 * text where a value is missing, read as if it had been set. Throws `invalid`, naming every wrong field.
 */
export function readCocoonSet(object: unknown): CocoonSet {
  const { metadata, spec, status } = parseWith(readSchema, object, "CocoonSet");
  return { apiVersion, kind: "CocoonSet", metadata, spec, ...(status ? { status } : {}) };
}

/** `spec` alone, for admission requests. */
export function readCocoonSetSpec(spec: unknown): CocoonSetSpec {
  return parseWith(cocoonSetSpecSchema, readableSpec(spec), "spec");
}

export interface DeletionWishes {
  readonly snapshotPolicy: SnapshotPolicy;
  /** Whether the snapshots go too. */
  readonly purge: boolean;
}

/** What a deletion needs to know, of an object that may be invalid otherwise: deleting must always get through. */
export function readDeletionWishes(object: unknown): DeletionWishes {
  const spec = membersOf(membersOf(object)["spec"]);
  return {
    snapshotPolicy: snapshotPolicies.find((policy) => policy === spec["snapshotPolicy"]) ?? "always",
    purge: spec["deletionPolicy"] === "Purge",
  };
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function readableSpec(value: unknown): unknown {
  const spec = withoutBlanks(value);
  if (typeof spec !== "object" || spec === null) return spec;
  const { agent, toolboxes, ...rest } = spec as { agent?: unknown; toolboxes?: unknown };
  return {
    ...rest,
    ...(agent === undefined ? {} : { agent: withoutBlanks(agent) }),
    ...(toolboxes === undefined
      ? {}
      : { toolboxes: Array.isArray(toolboxes) ? toolboxes.map(withoutBlanks) : toolboxes }),
  };
}
