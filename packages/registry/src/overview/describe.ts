/** What a manifest amounts to, for people: its kind, size and layers. */
import { classifyManifest, manifestAnnotation, type ArtifactKind } from "@cocoon/contract";
import type { ManifestStore } from "../content/manifest-store.ts";
import type { Manifest } from "../content/manifest.ts";
import type { Digest, RepositoryName } from "../names.ts";

export interface Description {
  readonly kind: ArtifactKind;
  readonly artifactType: string | undefined;
  /** Config and layers, each blob once; of an index, those of its children. */
  readonly totalSize: number;
  readonly layerCount: number;
  /** The time the manifest itself claims to be from. */
  readonly created: string | undefined;
  readonly blobs: ReadonlyMap<Digest, number>;
  readonly platformSizes:
    | readonly { readonly digest: Digest; readonly size: number; readonly layerCount: number }[]
    | undefined;
}

export async function describe(
  name: RepositoryName,
  manifest: Manifest,
  manifests: ManifestStore,
): Promise<Description> {
  const children = manifest.isIndex ? await describeChildren(name, manifest, manifests) : undefined;
  const blobs = new Map(children ? children.flatMap((child) => [...child.blobs]) : listBlobs(manifest));
  return {
    kind: classifyManifest(manifest),
    artifactType: manifest.artifactType,
    totalSize: sum(blobs.values()),
    layerCount: children ? children.length : manifest.layers.length,
    created: readTime(manifest.annotations[manifestAnnotation.created]),
    blobs,
    platformSizes: children?.map(({ digest, blobs, layerCount }) => ({
      digest,
      size: sum(blobs.values()),
      layerCount,
    })),
  };
}

interface Child {
  readonly digest: Digest;
  readonly blobs: ReadonlyMap<Digest, number>;
  readonly layerCount: number;
}

/** One level down; a child that was never pushed counts as empty. */
async function describeChildren(
  name: RepositoryName,
  manifest: Manifest,
  manifests: ManifestStore,
): Promise<Child[]> {
  const children: Child[] = [];
  for (const { digest } of manifest.manifests) {
    const child = await (await manifests.get(name, digest))?.manifest();
    children.push({
      digest,
      blobs: new Map(child ? listBlobs(child) : []),
      layerCount: child?.layers.length ?? 0,
    });
  }
  return children;
}

function listBlobs({ config, layers }: Manifest): [Digest, number][] {
  return (config ? [config, ...layers] : layers).map(({ digest, size }) => [digest, size]);
}

function sum(sizes: Iterable<number>): number {
  let total = 0;
  for (const size of sizes) total += size;
  return total;
}

function readTime(text: string | undefined): string | undefined {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
