/** The CocoonSet: one main machine, its forks, and toolboxes beside them. */
import * as z from "zod";
import { cocoonSetSpecSchema, type CocoonSetSpec } from "./cocoonset-spec.ts";
import { cocoonSetStatusSchema, type CocoonSetStatus } from "./cocoonset-status.ts";
import { apiVersion } from "./keys.ts";
import { snapshotPolicies, type SnapshotPolicy } from "./snapshot-policy.ts";
import { defineKind, parseWith, specRequired, withoutBlanks, type CustomObject } from "./schema.ts";

export type CocoonSet = CustomObject<typeof apiVersion, "CocoonSet", CocoonSetSpec, CocoonSetStatus>;

const kind = defineKind({
  apiVersion,
  kind: "CocoonSet",
  description:
    "A CocoonSet runs a main machine, sub-agents forked from it and toolboxes beside it, each as a pod on a VM host.",
  spec: cocoonSetSpecSchema,
  readSpec: z.preprocess(readableSpec, cocoonSetSpecSchema),
  status: cocoonSetStatusSchema,
  rules: [
    specRequired,
    {
      rule: "oldSelf.hasValue() || size(self.metadata.name) <= 63",
      message: "metadata.name must be no more than 63 characters because it becomes a label of the pods",
      optionalOldSelf: true,
    },
  ],
});

export const cocoonSetSchema = kind.schema;
/** A CocoonSet from the API server, with every default filled in; empty texts read as not set. */
export const readCocoonSet: (object: unknown) => CocoonSet = kind.read;

export function readCocoonSetSpec(spec: unknown): CocoonSetSpec {
  return parseWith(cocoonSetSpecSchema, readableSpec(spec), "spec");
}

/** What a deletion needs to know, of an object that may be invalid otherwise: deleting must always get through. */
export function readDeletionPolicy(object: unknown): {
  readonly snapshotPolicy: SnapshotPolicy;
  readonly purge: boolean;
} {
  const spec = readMembers(readMembers(object)["spec"]);
  return {
    snapshotPolicy: snapshotPolicies.find((policy) => policy === spec["snapshotPolicy"]) ?? "always",
    purge: spec["deletionPolicy"] === "Purge",
  };
}

function readMembers(value: unknown): Readonly<Record<string, unknown>> {
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
