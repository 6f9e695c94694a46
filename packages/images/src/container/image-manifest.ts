/** From a manifest to an image that can be made local, wherever its blobs lie. */
import { manifestSchema, mediaType, type Descriptor } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { readArtifactKind } from "@cocoon/oci";
import type { SourceBlob, SourceImage } from "../image-source.ts";

export interface ManifestReader {
  blob(descriptor: Descriptor): SourceBlob;
  /** A small blob as a whole, checked. */
  read(descriptor: Descriptor): Promise<Buffer>;
}

const maxConfigBytes = 8 * 1024 * 1024;

export async function readManifestSource(
  { digest, bytes }: { readonly digest: string; readonly bytes: Buffer },
  reader: ManifestReader,
): Promise<SourceImage> {
  const kind = readArtifactKind(bytes);
  if (kind === "snapshot") return { kind: "other", digest, what: "a snapshot: clone it" };
  if (kind !== "container-image" && kind !== "cloud-image") {
    return { kind: "other", digest, what: `something of kind ${kind}` };
  }
  const parsed = manifestSchema.safeParse(JSON.parse(bytes.toString("utf8")));
  if (!parsed.success)
    throw new Fault("invalid", "the image's manifest is malformed", { cause: parsed.error });
  const manifest = parsed.data;
  const layers = manifest.layers.map((layer) => reader.blob(layer));
  if (kind === "cloud-image") {
    return { kind: "cloudImage", digest, windows: manifest.artifactType === mediaType.windowsImage, layers };
  }
  if (manifest.config.size > maxConfigBytes) {
    throw new Fault("tooLarge", `the image's config has ${manifest.config.size} bytes`);
  }
  const config: unknown = JSON.parse((await reader.read(manifest.config)).toString("utf8"));
  return { kind: "container", digest, config, layers };
}
