/** References to images and snapshots: relative (`team/base:v7`, the only form for clone mode), full, or an `https://` address. */
/** Runs of letters and digits with exactly one separator between them; the slash is one of the separators. */
const repositorySource = "[a-z0-9]+(?:(?:[._/]|__|-+)[a-z0-9]+)*";
const tagSource = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}";
const hostSource =
  "(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?";
const digestSource = "sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}";

/** `repo[:tag]`: no registry port, no digest. The API server checks clone images with this very text. */
export const relativeReferenceSource = `^${repositorySource}(?::${tagSource})?$`;
const relativeReferencePattern = new RegExp(relativeReferenceSource);
const repositoryPattern = new RegExp(`^${repositorySource}$`);
const tagPattern = new RegExp(`^${tagSource}$`);
const digestPattern = new RegExp(`^(?:${digestSource})$`);
const fullPattern = new RegExp(
  `^(?:(?<registry>${hostSource})/)?(?<repository>${repositorySource})(?::(?<tag>${tagSource}))?(?:@(?<digest>${digestSource}))?$`,
);

export const defaultTag = "latest";
const maxRepositoryLength = 255;
const maxReferenceLength = 2048;

export interface RelativeReference {
  readonly repository: string;
  readonly tag: string;
}

export interface RegistryReference {
  readonly kind: "registry";
  /** Host and port; undefined when the reference is relative to the configured registry. */
  readonly registry?: string;
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: string;
}

export type ImageReference = RegistryReference | { readonly kind: "url"; readonly url: string };

export function isRepository(text: string): boolean {
  return text.length <= maxRepositoryLength && repositoryPattern.test(text);
}

export function isTag(text: string): boolean {
  return tagPattern.test(text);
}

export function isDigest(text: string): boolean {
  return digestPattern.test(text);
}

export function isImageUrl(text: string): boolean {
  return text.startsWith("http://") || text.startsWith("https://");
}

/** A reference for clone mode. `ghcr.io/a/b` is one too: its dots are legal in a repository name. */
export function tryParseRelativeReference(text: string): RelativeReference | undefined {
  if (text.length > maxReferenceLength || !relativeReferencePattern.test(text)) return undefined;
  const colon = text.indexOf(":");
  const repository = colon < 0 ? text : text.slice(0, colon);
  if (repository.length > maxRepositoryLength) return undefined;
  return { repository, tag: colon < 0 ? defaultTag : text.slice(colon + 1) };
}

/** Any reference. A first part with a dot, a port, or `localhost` is a host, as container tools decide it. */
export function tryParseImageReference(text: string): ImageReference | undefined {
  if (text.length > maxReferenceLength) return undefined;
  if (isImageUrl(text)) return URL.canParse(text) ? { kind: "url", url: text } : undefined;
  const match = fullPattern.exec(text)?.groups;
  if (match === undefined) return tryParseHostless(text);
  const { registry, repository = "", tag, digest } = match;
  if (registry !== undefined && !isHost(registry)) return tryParseHostless(text);
  return checked({ registry, repository, tag, digest });
}

/** The same text read without a host: `library/base` is a repository, not host `library`. */
function tryParseHostless(text: string): RegistryReference | undefined {
  const [name = "", digest] = text.split("@", 2);
  const colon = name.indexOf(":");
  const repository = colon < 0 ? name : name.slice(0, colon);
  const tag = colon < 0 ? undefined : name.slice(colon + 1);
  if (text.split("@").length > 2 || (tag !== undefined && !isTag(tag))) return undefined;
  if (digest !== undefined && !isDigest(digest)) return undefined;
  return isRepository(repository) ? checked({ registry: undefined, repository, tag, digest }) : undefined;
}

type Parts = {
  readonly [Part in "registry" | "tag" | "digest"]: string | undefined;
} & { readonly repository: string };

function checked({ registry, repository, tag, digest }: Parts): RegistryReference | undefined {
  if (repository.length > maxRepositoryLength) return undefined;
  const port = registry === undefined ? undefined : /:(\d+)$/.exec(registry)?.[1];
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return undefined;
  return {
    kind: "registry",
    repository,
    ...(registry === undefined ? {} : { registry }),
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

function isHost(text: string): boolean {
  return text.includes(".") || text.includes(":") || text === "localhost";
}

export function formatImageReference(reference: ImageReference): string {
  if (reference.kind === "url") return reference.url;
  const { registry, repository, tag, digest } = reference;
  return `${registry === undefined ? "" : `${registry}/`}${repository}${tag === undefined ? "" : `:${tag}`}${digest === undefined ? "" : `@${digest}`}`;
}
