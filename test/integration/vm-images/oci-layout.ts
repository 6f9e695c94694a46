/** A small container image made for a test, offered as a registry would. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { Fault } from "@cocoon/core";
import type { ImageSource, SourceBlob, SourceImage } from "@cocoon/images";
import { writeTestTar, type TestEntry } from "@cocoon/oci/testing";

export function sha256(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

export function readBlob(content: Buffer, mediaType = "application/vnd.oci.image.layer.v1.tar"): SourceBlob {
  return {
    digest: sha256(content),
    sizeBytes: content.length,
    mediaType,
    open: () => Promise.resolve(Readable.from([content.subarray(0, 1000), content.subarray(1000)])),
  };
}

export interface TestImage {
  readonly layers: readonly (readonly TestEntry[])[];
  readonly config?: Readonly<Record<string, unknown>>;
  readonly architecture?: string;
}

function packed(archive: Buffer, index: number): Buffer {
  if (index % 3 === 0) return gzipSync(archive);
  return index % 3 === 1 ? archive : zstdCompressSync(archive);
}

/** Layers come packed, each in another way. */
export function containerImage({ layers, config = {}, architecture = "amd64" }: TestImage): SourceImage {
  const blobs = layers.map((entries, index) => readBlob(packed(writeTestTar(entries), index)));
  const full = { architecture, os: "linux", config };
  return {
    kind: "container",
    digest: sha256(Buffer.from(JSON.stringify([full, blobs.map(({ digest }) => digest)]))),
    config: full,
    layers: blobs,
  };
}

/** A registry that holds these, and can be taken away. */
export class TestRegistry implements ImageSource {
  readonly images = new Map<string, SourceImage>();
  isDown = false;

  normalise(ref: string): string {
    if (/[^a-z0-9./:@-]/.test(ref)) throw new Fault("invalid", `"${ref}" is no reference`);
    return ref.includes("/") ? ref : `registry.test/${ref}`;
  }

  open(ref: string): Promise<SourceImage> {
    if (this.isDown) return Promise.reject(new Fault("unavailable", "the registry does not answer"));
    const found = this.images.get(ref);
    return found ? Promise.resolve(found) : Promise.reject(new Fault("notFound", `${ref} is unknown`));
  }
}
