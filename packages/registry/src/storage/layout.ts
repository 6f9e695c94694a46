/**
 * Where everything lies. The one place that makes keys; repository names, tags and digests come in as checked
 * types, so no key can leave its folder.
 *
 *   blobs/<algorithm>/<hex>                      content, shared by all repositories
 *   links/<repository>/<algorithm>-<hex>         empty: this repository holds that blob; its time is the lease that
 *                                                keeps the blob safe from garbage collection until a manifest names it
 *   manifests/<repository>/<algorithm>-<hex>     one line of JSON (media type, time), then the exact bytes pushed
 *   tags/<repository>/<tag>                      JSON: digest and time
 *   tagged/<repository>/<digest>/<tag>           empty: that tag was once set to this digest; true while its record says so
 *   referrers/<repository>/<subject>/<digest>    JSON: descriptor of a manifest that names this subject; true only while
 *                                                the manifest is there (subject and digest as <algorithm>-<hex>)
 *   damaged/<algorithm>-<hex>                    JSON: that blob's content is not what its digest says
 *   condemned/…                                  empty: garbage collection is about to delete that (see `replicas/`)
 *   tokens/<id>                                  JSON: hash, scopes, expiry
 *   server/<name>                                secret of this registry, probes
 *
 * <repository> is the name with "+" for "/": "+" is in no name, so it can be read back, and one listing shows all.
 * The filesystem adds `incoming/` (objects being written) and `uploads/` (sessions); neither is visible as objects.
 *
 * Order of writes, so that a crash between any two leaves nothing dangling:
 *   push a blob      link and content in either order; the blob exists for readers once both are there
 *   push a manifest  referrer and tagged, manifest, tag
 *   delete           tags, manifest, referrer, tagged
 *   garbage          links before content
 */
import {
  tryDigest,
  tryRepositoryName,
  tryTag,
  type Digest,
  type RepositoryName,
  type Tag,
} from "../names.ts";

declare const brand: unique symbol;
export type StorageKey = string & { readonly [brand]: "key" };

const key = (...parts: readonly string[]): StorageKey => parts.join("/") as StorageKey;
const folder = (name: RepositoryName): string => name.replaceAll("/", "+");
const flat = (digest: Digest): string => digest.replace(":", "-");

export const layout = {
  blob: (digest: Digest) => key("blobs", ...digest.split(":")),
  link: (name: RepositoryName, digest: Digest) => key("links", folder(name), flat(digest)),
  manifest: (name: RepositoryName, digest: Digest) => key("manifests", folder(name), flat(digest)),
  tag: (name: RepositoryName, tag: Tag) => key("tags", folder(name), tag),
  referrer: (name: RepositoryName, { subject, digest }: { subject: Digest; digest: Digest }) =>
    key("referrers", folder(name), flat(subject), flat(digest)),
  tagged: (name: RepositoryName, { digest, tag }: { digest: Digest; tag: Tag }) =>
    key("tagged", folder(name), flat(digest), tag),
  condemnedBlob: (digest: Digest) => key("condemned", "blobs", flat(digest)),
  condemnedRepository: (name: RepositoryName) => key("condemned", "repositories", folder(name)),
  damaged: (digest: Digest) => key("damaged", flat(digest)),
  token: (id: number) => key("tokens", String(id)),
  secret: key("server", "secret"),
  /** There when `tagged/` is complete. */
  tagIndex: key("server", "tag-index"),
  maintenanceLease: key("server", "maintenance-lease"),
  soleReplica: key("server", "sole-replica"),
  clock: key("server", "clock"),
  probe: (id: string) => key("server", `probe-${id}`),
} as const;

export const folders = {
  blobs: ["blobs/sha256/", "blobs/sha512/"],
  allLinks: "links/",
  allManifests: "manifests/",
  allTags: "tags/",
  allReferrers: "referrers/",
  links: (name: RepositoryName) => `links/${folder(name)}/`,
  manifests: (name: RepositoryName) => `manifests/${folder(name)}/`,
  tags: (name: RepositoryName) => `tags/${folder(name)}/`,
  referrers: (name: RepositoryName) => `referrers/${folder(name)}/`,
  referrersOf: (name: RepositoryName, subject: Digest) => `referrers/${folder(name)}/${flat(subject)}/`,
  tagged: (name: RepositoryName) => `tagged/${folder(name)}/`,
  taggedAs: (name: RepositoryName, digest: Digest) => `tagged/${folder(name)}/${flat(digest)}/`,
  condemned: "condemned/",
  damaged: "damaged/",
  tokens: "tokens/",
} as const;

/** The reverse direction: what a listed name stands for; undefined for other files. */
export const readName = {
  repository: (folderName: string): RepositoryName | undefined =>
    folderName.includes("/") ? undefined : tryRepositoryName(folderName.replaceAll("+", "/")),
  digest: (name: string): Digest | undefined => tryDigest(name.replace("-", ":")),
  tag: (name: string): Tag | undefined => tryTag(name),
} as const;

export function lastPart(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}
