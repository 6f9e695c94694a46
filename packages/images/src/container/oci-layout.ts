/**
 * Images in a directory with the OCI image layout, as `skopeo copy … oci:DIR` and `buildah push … oci:DIR` leave it.
 * Named `oci:/absolute/path[:tag]`.
 *
 *   index.json             manifests, each with its tag as annotation
 *   blobs/sha256/HEX       manifests, configs, layers
 */
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isDigest, type Descriptor } from "@cocoon/contract";
import { Fault, systemCode } from "@cocoon/core";
import { assertDigest } from "@cocoon/oci";
import * as z from "zod";
import type { ImageSource, SourceBlob, SourceImage } from "../image-source.ts";
import { readManifestSource } from "./image-manifest.ts";

interface OciLayoutName {
  readonly directory: string;
  readonly tag?: string;
}

export function tryReadLayoutName(text: string): OciLayoutName | undefined {
  const match = /^oci:(?<directory>\/[^:]*)(?::(?<tag>[\w][\w.-]{0,127}))?$/.exec(text)?.groups;
  if (!match?.["directory"]) return undefined;
  return { directory: match["directory"], ...(match["tag"] ? { tag: match["tag"] } : {}) };
}

const maxJsonBytes = 16 * 1024 * 1024;
const tagAnnotation = "org.opencontainers.image.ref.name";

const indexSchema = z.looseObject({
  manifests: z
    .array(
      z.looseObject({
        mediaType: z.string().default(""),
        digest: z.string(),
        size: z.int().nonnegative(),
        annotations: z.record(z.string(), z.string()).optional(),
        platform: z.looseObject({ os: z.string(), architecture: z.string() }).optional(),
      }),
    )
    .max(10_000),
});

type Entry = z.infer<typeof indexSchema>["manifests"][number];

/** Layouts as a source beside registries. */
export const layoutSource: ImageSource = {
  normalise: (ref) => ref,
  open: async (ref) => {
    const name = tryReadLayoutName(ref);
    if (!name) throw new Fault("invalid", `"${ref}" is no OCI layout: write oci:/absolute/path[:tag]`);
    return openOciLayout(name);
  },
};

async function openOciLayout(name: OciLayoutName): Promise<SourceImage> {
  const { directory } = name;
  const index = await readIndex(join(directory, "index.json"));
  let entry = choose(index, name);
  let bytes = await readJsonBlob(directory, entry);
  if (/\.(?:index|manifest\.list)\.v\d\+json$/.test(entry.mediaType)) {
    const children = indexSchema.parse(JSON.parse(bytes.toString("utf8"))).manifests;
    entry = choosePlatform(children, name);
    bytes = await readJsonBlob(directory, entry);
  }
  return readManifestSource(
    { digest: entry.digest, bytes },
    {
      blob: (layer) => openBlob(directory, layer),
      read: (descriptor) => readJsonBlob(directory, descriptor),
    },
  );
}

async function readIndex(path: string): Promise<Entry[]> {
  try {
    if ((await stat(path)).size > maxJsonBytes)
      throw new Fault("tooLarge", `${path} is too large for an index`);
    return indexSchema.parse(JSON.parse(await readFile(path, "utf8"))).manifests;
  } catch (error) {
    if (systemCode(error) === "ENOENT")
      throw new Fault("notFound", `${path} does not exist: no OCI layout is there`);
    if (error instanceof Fault) throw error;
    throw new Fault("invalid", `${path} is no index of an OCI layout`, { cause: error });
  }
}

/** By tag; without one, the only one there is. */
function choose(entries: readonly Entry[], { directory, tag }: OciLayoutName): Entry {
  const fitting =
    tag === undefined ? entries : entries.filter((each) => each.annotations?.[tagAnnotation] === tag);
  const [first, second] = fitting;
  if (!first) throw new Fault("notFound", `the OCI layout ${directory} has no image ${tag ?? ""}`.trimEnd());
  if (second && tag === undefined) {
    throw new Fault(
      "invalid",
      `the OCI layout ${directory} has several images: name one as oci:${directory}:TAG`,
    );
  }
  return first;
}

function choosePlatform(entries: readonly Entry[], { directory }: OciLayoutName): Entry {
  const found = entries.find(({ platform }) => platform?.os === "linux" && platform.architecture === "amd64");
  if (!found) throw new Fault("preconditionFailed", `the image in ${directory} is not for linux/amd64`);
  return found;
}

function blobPath(directory: string, digest: string): string {
  if (!isDigest(digest))
    throw new Fault("invalid", `the OCI layout ${directory} names a blob "${digest.slice(0, 100)}"`);
  return join(directory, "blobs", ...digest.split(":"));
}

async function readJsonBlob(
  directory: string,
  { digest, size }: Pick<Descriptor, "digest" | "size">,
): Promise<Buffer> {
  if (size > maxJsonBytes)
    throw new Fault("tooLarge", `the OCI layout ${directory} holds a description of ${size} bytes`);
  try {
    const bytes = await readFile(blobPath(directory, digest));
    assertDigest(bytes, digest, `blob of ${directory}`);
    return bytes;
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    throw new Fault("invalid", `the OCI layout ${directory} lacks its blob ${digest}`);
  }
}

function openBlob(directory: string, { digest, size, mediaType, annotations }: Descriptor): SourceBlob {
  const title = annotations?.["org.opencontainers.image.title"];
  return {
    digest,
    sizeBytes: size,
    mediaType,
    ...(title === undefined ? {} : { title }),
    open: () =>
      Promise.resolve(createReadStream(blobPath(directory, digest), { highWaterMark: 1024 * 1024 })),
  };
}
