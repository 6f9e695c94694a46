/** Images that machines can be started from: built-in ones, those that this machine's platform keeps, and the registry's. */
import { classifyManifest, type ArtifactKind } from "@cocoon/contract";
import { isFault, type Abortable } from "@cocoon/core";
import { builtInImageNames, openImageLibrary } from "@cocoon/images";
import type { Registry } from "@cocoon/oci";
import { existsSync } from "node:fs";
import type { Session } from "../cluster/session.ts";
import { imageDirectory } from "../parts/node-part.ts";
import { partsDirectory } from "../parts/parts.ts";

export interface KnownImage {
  readonly name: string;
  readonly kind: "built-in" | "local" | Exclude<ArtifactKind, "unknown">;
  /** 0 when not known. */
  readonly sizeBytes: number;
}

/** A registry may hold any number of images. */
const mostRepositories = 200;
const mostTags = 20;
/** Repositories of machines: `snapshot ls` lists what is in them. */
const machinePrefix = "vk-";

export async function listKnownImages(
  session: Pick<Session, "target" | "signal">,
  registry: Registry | undefined,
): Promise<KnownImage[]> {
  const local = await listLocalImages(session);
  const stored = local.map(({ name }) => name);
  const builtIn = builtInImageNames
    .filter((name) => !stored.includes(name))
    .map((name): KnownImage => ({ name, kind: "built-in", sizeBytes: 0 }));
  return [...builtIn, ...local, ...(registry ? await listRegistryImages(registry, session) : [])];
}

async function listLocalImages({
  target,
  signal,
}: Pick<Session, "target" | "signal">): Promise<KnownImage[]> {
  if (target.home === undefined) return [];
  const directory = imageDirectory({ directory: partsDirectory(target.home) });
  if (!existsSync(directory)) return [];
  const images = await openImageLibrary({ directory }).list({ signal });
  return images.map(({ name, sizeBytes }) => ({
    name,
    kind: builtInImageNames.includes(name) ? "built-in" : "local",
    sizeBytes,
  }));
}

/** Images and named snapshots of the registry, without the repositories of machines. */
async function listRegistryImages(registry: Registry, options: Abortable): Promise<KnownImage[]> {
  const base = registry.fullName("");
  const found: KnownImage[] = [];
  let left = mostRepositories;
  try {
    for await (const full of registry.repositories(options)) {
      const name = base !== "" && full.startsWith(`${base}/`) ? full.slice(base.length + 1) : full;
      if (name.startsWith(machinePrefix)) continue;
      found.push(...(await listRepository(registry, name, options)));
      left -= 1;
      if (left === 0) break;
    }
  } catch (error) {
    // Many registries and tokens do not allow listing.
    if (!isFault(error) || error.traits.retry) throw error;
  }
  return found;
}

async function listRepository(registry: Registry, name: string, options: Abortable): Promise<KnownImage[]> {
  const found: KnownImage[] = [];
  for await (const tag of registry.repository(name).tags(options)) {
    const image = await tryReadImage(registry, { name, tag }, options);
    if (image) found.push(image);
    if (found.length === mostTags) break;
  }
  return found;
}

/** What a tag of the registry names; undefined when it surely names nothing, or nothing that can be started. */
export async function tryReadImage(
  registry: Registry,
  { name, tag }: { readonly name: string; readonly tag: string },
  options: Abortable,
): Promise<KnownImage | undefined> {
  try {
    const { bytes, mediaType } = await registry.repository(name).getManifest(tag, options);
    const manifest = JSON.parse(Buffer.from(bytes).toString("utf8")) as {
      readonly layers?: readonly { readonly size?: number }[];
    };
    const kind = classifyManifest({ mediaType, ...manifest });
    const sizeBytes = (manifest.layers ?? []).reduce((sum, { size }) => sum + (size ?? 0), 0);
    return kind === "unknown" ? undefined : { name: `${name}:${tag}`, kind, sizeBytes };
  } catch (error) {
    if (isFault(error, "notFound") || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
