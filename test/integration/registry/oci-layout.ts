/** Small but real images as OCI layout directories, made from random content, for clients that copy them. */
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

const ociIndex = "application/vnd.oci.image.index.v1+json";
const ociManifest = "application/vnd.oci.image.manifest.v1+json";

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly os: string; readonly architecture: string };
}

export function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** One regular file in a tar archive, nothing else. */
function writeTar(name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  header.write(`${content.length.toString(8).padStart(11, "0")}\0`, 124);
  header.write("00000000000\0", 136);
  header.write("        ", 148);
  header.write("0ustar\u000000", 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([
    header,
    content,
    Buffer.alloc((512 - (content.length % 512)) % 512),
    Buffer.alloc(1024),
  ]);
}

export class OciLayout {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(directory: string): Promise<OciLayout> {
    await mkdir(join(directory, "blobs", "sha256"), { recursive: true });
    await writeFile(join(directory, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    return new OciLayout(directory);
  }

  async addBlob(mediaType: string, content: Buffer): Promise<Descriptor> {
    const digest = sha256(content);
    await writeFile(join(this.directory, "blobs", "sha256", digest.slice("sha256:".length)), content);
    return { mediaType, digest, size: content.length };
  }

  async addImage(architecture: string, layerBytes: number): Promise<Descriptor> {
    const tar = writeTar("content", randomBytes(layerBytes));
    const layer = await this.addBlob(
      "application/vnd.oci.image.layer.v1.tar+gzip",
      gzipSync(tar, { level: 1 }),
    );
    const config = await this.addBlob(
      "application/vnd.oci.image.config.v1+json",
      Buffer.from(
        JSON.stringify({
          architecture,
          os: "linux",
          config: {},
          rootfs: { type: "layers", diff_ids: [sha256(tar)] },
        }),
      ),
    );
    const manifest = { schemaVersion: 2, mediaType: ociManifest, config, layers: [layer] };
    const descriptor = await this.addBlob(ociManifest, Buffer.from(JSON.stringify(manifest)));
    return { ...descriptor, platform: { os: "linux", architecture } };
  }

  async addIndex(manifests: readonly Descriptor[]): Promise<Descriptor> {
    return this.addBlob(
      ociIndex,
      Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: ociIndex, manifests })),
    );
  }

  /** Makes the content findable by name: `oci:<directory>:<name>`. */
  async name(name: string, descriptor: Descriptor): Promise<void> {
    const annotations = { "org.opencontainers.image.ref.name": name };
    await writeFile(
      join(this.directory, "index.json"),
      JSON.stringify({ schemaVersion: 2, manifests: [{ ...descriptor, annotations }] }),
    );
  }
}
