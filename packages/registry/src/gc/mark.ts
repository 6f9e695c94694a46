/** Which manifests of a repository are alive, and which blobs they need. Pure: what is there comes in, a verdict out. */
import type { Digest } from "../names.ts";

interface Reference {
  readonly digest: Digest;
}

interface ManifestReferences {
  readonly config: Reference | undefined;
  readonly layers: readonly Reference[];
  readonly manifests: readonly Reference[];
  readonly subject: Reference | undefined;
}

export interface PresentManifest {
  readonly digest: Digest;
  readonly manifest: ManifestReferences;
  /** Pushed so recently that a tag may still be on its way. */
  readonly recent: boolean;
}

export interface Marked {
  readonly alive: ReadonlySet<Digest>;
  readonly dead: readonly Digest[];
  readonly blobs: ReadonlySet<Digest>;
}

/**
 * Alive is what a tag points to, what was pushed recently, what a living index lists, and what names a living
 * manifest as its subject (a signature lives as long as what it signs).
 */
export function mark(present: readonly PresentManifest[], tagged: ReadonlySet<Digest>): Marked {
  const byDigest = new Map(present.map((each) => [each.digest, each]));
  const bySubject = Map.groupBy(present, (each) => each.manifest.subject?.digest);
  const alive = new Set<Digest>();
  const open = present.filter((each) => each.recent || tagged.has(each.digest));
  for (let next = open.pop(); next; next = open.pop()) {
    if (alive.has(next.digest)) continue;
    alive.add(next.digest);
    open.push(...(bySubject.get(next.digest) ?? []));
    for (const child of next.manifest.manifests) {
      const found = byDigest.get(child.digest);
      if (found) open.push(found);
    }
  }
  const living = present.filter((each) => alive.has(each.digest));
  const blobs = living.flatMap(({ manifest: { config, layers } }) => (config ? [config, ...layers] : layers));
  return {
    alive,
    dead: present.filter((each) => !alive.has(each.digest)).map((each) => each.digest),
    blobs: new Set(blobs.map((each) => each.digest)),
  };
}
