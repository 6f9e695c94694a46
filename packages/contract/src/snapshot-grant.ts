/**
 * The CocoonSnapshotGrant: a namespace lets sets of other namespaces start from its snapshots. Ours; without one,
 * `spec.agent.from` works within a namespace only.
 */
import * as z from "zod";
import { apiVersion } from "./keys.ts";
import { dnsLabelPattern } from "./rfc1123.ts";
import { field, parseWith, type ObjectMeta } from "./schema.ts";

const namespaceName = z.string().max(63).regex(dnsLabelPattern);

const grantSpecSchema = z.object({
  namespaces: z
    .array(namespaceName.meta({ description: "A namespace." }))
    .min(1)
    .max(64)
    .meta({
      description: "Namespaces whose sets may start from the snapshots.",
      "x-kubernetes-list-type": "set",
    }),
  sets: z
    .array(field.text("Name of a set of this namespace.", { max: 63 }))
    .max(64)
    .meta({
      description: "Sets of this namespace whose snapshots may be used; all of them when not set.",
      "x-kubernetes-list-type": "set",
    })
    .optional(),
});

export const snapshotGrantSchema = z
  .object({ spec: grantSpecSchema.meta({ description: "What is granted to whom." }) })
  .meta({
    description: "A CocoonSnapshotGrant lets sets of other namespaces start from snapshots of this one.",
  });

export interface CocoonSnapshotGrant {
  readonly apiVersion: typeof apiVersion;
  readonly kind: "CocoonSnapshotGrant";
  readonly metadata: ObjectMeta;
  readonly spec: z.output<typeof grantSpecSchema>;
}

const readSchema = z.object({
  metadata: z.custom<ObjectMeta>((value) => typeof value === "object" && value !== null, "is missing"),
  spec: grantSpecSchema,
});

/** Throws `invalid`, naming every wrong field. */
export function readSnapshotGrant(object: unknown): CocoonSnapshotGrant {
  const { metadata, spec } = parseWith(readSchema, object, "CocoonSnapshotGrant");
  return { apiVersion, kind: "CocoonSnapshotGrant", metadata, spec };
}

/** Whether this grant lets a set of `namespace` start from snapshots of `set`. */
export function grants(
  { spec }: Pick<CocoonSnapshotGrant, "spec">,
  use: { readonly namespace: string; readonly set: string },
): boolean {
  return spec.namespaces.includes(use.namespace) && (spec.sets === undefined || spec.sets.includes(use.set));
}
