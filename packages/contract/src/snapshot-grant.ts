/** The CocoonSnapshotGrant: lets sets of other namespaces start from snapshots of this one. Ours. */
import * as z from "zod";
import { dnsLabelPattern } from "./rfc1123.ts";
import { field, metadataSchema, parseWith, type ObjectMeta } from "./schema.ts";

const grantSpecSchema = z.object({
  namespaces: z
    .array(field.text("A namespace.", { max: 63, pattern: dnsLabelPattern }))
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
  readonly metadata: ObjectMeta;
  readonly spec: z.output<typeof grantSpecSchema>;
}

const reading = z.object({ metadata: metadataSchema, spec: grantSpecSchema });

export function readSnapshotGrant(object: unknown): CocoonSnapshotGrant {
  return parseWith(reading, object, "CocoonSnapshotGrant");
}

export function grants(
  { spec }: Pick<CocoonSnapshotGrant, "spec">,
  use: { readonly namespace: string; readonly set: string },
): boolean {
  return spec.namespaces.includes(use.namespace) && (spec.sets === undefined || spec.sets.includes(use.set));
}
