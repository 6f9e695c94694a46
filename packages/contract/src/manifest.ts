/** OCI image manifests as far as our artifacts need them. Unknown members are kept: digests are over stored bytes. */
import { Fault } from "@cocoon/core/fault";
import * as z from "zod";
import { classifyManifest, isDiskType, manifestAnnotation } from "./media-types.ts";
import { parseWith } from "./schema.ts";

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

/** A cloud image: its disk, whole or in parts whose titles sort in order. Other layers are ignored. */
export function readCloudImageManifest(value: unknown): Manifest {
  const manifest = parseWith(manifestSchema, value, "cloud image manifest");
  if (classifyManifest(manifest) !== "cloud-image")
    throw new Fault("invalid", `artifact type "${manifest.artifactType ?? ""}" is not a cloud image`);
  return manifest;
}

export function cloudImageDisk(manifest: Manifest): readonly Descriptor[] {
  const disks = manifest.layers.filter((layer) => isDiskType(layer.mediaType));
  if (disks.length === 0) throw new Fault("invalid", "the cloud image has no disk layer");
  return disks.toSorted((left, right) => compareBytes(readTitle(left), readTitle(right)));
}

function readTitle(layer: Descriptor): string {
  return layer.annotations?.[manifestAnnotation.title] ?? "";
}

/** Titles sort by the bytes of their UTF-8 form, as the Go tools sort them. */
function compareBytes(left: string, right: string): number {
  const [one, other] = [new TextEncoder().encode(left), new TextEncoder().encode(right)];
  for (const [index, byte] of one.entries()) {
    const difference = byte - (other[index] ?? -1);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}
