/** Manifest of a cloud image: its disk, whole or in parts whose titles sort in order. Other layers are ignored. */
import { Fault } from "@cocoon/core/fault";
import { manifestSchema, type Descriptor, type Manifest } from "./manifest.ts";
import { artifactKindOf, isDiskType, manifestAnnotation } from "./media-types.ts";
import { parseWith } from "./schema.ts";

export function readCloudImageManifest(value: unknown): Manifest {
  const manifest = parseWith(manifestSchema, value, "cloud image manifest");
  if (artifactKindOf(manifest) !== "cloud-image")
    throw new Fault("invalid", `artifact type "${manifest.artifactType ?? ""}" is not a cloud image`);
  return manifest;
}

/** The layers whose bytes, one after the other, are the disk. */
export function cloudImageDisk(manifest: Manifest): readonly Descriptor[] {
  const disks = manifest.layers.filter((layer) => isDiskType(layer.mediaType));
  if (disks.length === 0) throw new Fault("invalid", "the cloud image has no disk layer");
  return disks.toSorted((left, right) => compareBytes(titleOf(left), titleOf(right)));
}

function titleOf(layer: Descriptor): string {
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
