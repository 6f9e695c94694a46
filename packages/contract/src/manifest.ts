/** OCI image manifests as far as our artifacts need them. Unknown members are kept: digests are over stored bytes. */
import * as z from "zod";

const digestSchema = z
  .string()
  .regex(/^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/, "must be sha256:<64 hex> or sha512:<128 hex>");

const annotationsSchema = z.record(z.string(), z.string());

/** More layers than any snapshot has: 2^20 chunks per file is the format's own limit, a manifest holds far fewer. */
const maxLayers = 100_000;

const descriptorSchema = z.looseObject({
  mediaType: z.string().min(1).max(255),
  digest: digestSchema,
  size: z.int().min(0),
  annotations: annotationsSchema.optional(),
});

export const manifestSchema = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  artifactType: z.string().optional(),
  config: descriptorSchema,
  layers: z.array(descriptorSchema).max(maxLayers),
  annotations: annotationsSchema.optional(),
});

export type Descriptor = z.output<typeof descriptorSchema>;
export type Manifest = z.output<typeof manifestSchema>;
