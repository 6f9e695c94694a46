/**
 * From a path to what it means. Names, tags and digests are checked here, once; handlers only ever see checked ones.
 * Repository names may contain "/", so paths under /v2/ are read from their end.
 */
import {
  digest,
  repositoryName,
  quoted,
  tryDigest,
  tryTag,
  type Digest,
  type RepositoryName,
  type Tag,
} from "../names.ts";
import { ociFault } from "../oci-fault.ts";

const fixedRoutes = {
  "/": "home",
  "/v2": "ping",
  "/v2/": "ping",
  "/v2/_catalog": "catalog",
  "/v2/token": "token",
  "/api/stats": "apiStats",
  "/api/repositories": "apiRepositories",
  "/api/catalog/sync": "apiSync",
  "/api/tokens": "apiTokens",
  "/api/gc": "apiGc",
  "/api/fsck": "apiFsck",
  "/auth/me": "me",
  "/login": "login",
  "/login/callback": "loginCallback",
  "/logout": "logout",
  "/healthz": "health",
  "/readyz": "ready",
} as const;

type FixedKind = (typeof fixedRoutes)[keyof typeof fixedRoutes];

export type Route =
  | { [K in FixedKind]: { readonly kind: K } }[FixedKind]
  | { readonly kind: "manifest"; readonly name: RepositoryName; readonly reference: Tag | Digest }
  | { readonly kind: "blob"; readonly name: RepositoryName; readonly digest: Digest }
  | { readonly kind: "uploads"; readonly name: RepositoryName }
  | { readonly kind: "upload"; readonly name: RepositoryName; readonly session: string }
  | { readonly kind: "tags"; readonly name: RepositoryName }
  | { readonly kind: "referrers"; readonly name: RepositoryName; readonly subject: Digest }
  | { readonly kind: "apiRepository"; readonly name: RepositoryName }
  | { readonly kind: "apiTags"; readonly name: RepositoryName }
  | { readonly kind: "apiTag"; readonly name: RepositoryName; readonly tag: Tag }
  /** No id: what stands there is no number. */
  | { readonly kind: "apiToken"; readonly id: number | undefined }
  | { readonly kind: "download"; readonly name: RepositoryName };

export type RouteKind = Route["kind"];
export type RouteOf<K extends RouteKind> = Extract<Route, { readonly kind: K }>;

/** The route of a path; undefined when there is none of that shape. Throws when a name in it is malformed. */
export function readRoute(path: string, method = "GET"): Route | undefined {
  if (Object.hasOwn(fixedRoutes, path)) return { kind: fixedRoutes[path as keyof typeof fixedRoutes] };
  if (path.startsWith("/v2/")) return readDistributionRoute(path.slice("/v2/".length), method);
  if (path.startsWith("/api/")) return readApiRoute(decodeParts(path.slice("/api/".length)));
  if (path.startsWith("/dl/"))
    return { kind: "download", name: repositoryName(decodeParts(path.slice("/dl/".length)).join("/")) };
  return undefined;
}

/** Names come as they are, or with "%2F" for "/". */
function readApiRoute(parts: readonly string[]): Route | undefined {
  if (parts[0] === "tokens" && parts.length === 2)
    return { kind: "apiToken", id: /^\d{1,15}$/.test(parts[1] ?? "") ? Number(parts[1]) : undefined };
  if (parts[0] !== "repositories" || parts.length < 2) return undefined;
  const rest = parts.slice(1);
  if (rest.length > 1 && rest.at(-1) === "tags")
    return { kind: "apiTags", name: joinedName(rest.slice(0, -1)) };
  if (rest.length > 2 && rest.at(-2) === "tags") {
    const tag = tryTag(rest.at(-1) ?? "");
    return tag && { kind: "apiTag", name: joinedName(rest.slice(0, -2)), tag };
  }
  return { kind: "apiRepository", name: joinedName(rest) };
}

function joinedName(parts: readonly string[]): RepositoryName {
  return repositoryName(parts.join("/"));
}

function readDistributionRoute(rest: string, method: string): Route | undefined {
  const parts = decodeParts(rest);
  return readUploadRoute(parts) ?? readContentRoute(parts, method);
}

function readUploadRoute(parts: readonly string[]): Route | undefined {
  // …/blobs/uploads, …/blobs/uploads/ and …/blobs/uploads/<session>
  const at = parts.lastIndexOf("uploads");
  if (at < 2 || parts[at - 1] !== "blobs" || at < parts.length - 2) return undefined;
  const name = repositoryName(parts.slice(0, at - 1).join("/"));
  const session = parts[at + 1] ?? "";
  return session === "" ? { kind: "uploads", name } : { kind: "upload", name, session };
}

function readContentRoute(parts: readonly string[], method: string): Route | undefined {
  const last = parts.at(-1) ?? "";
  const kind = parts.at(-2);
  if (parts.length < 3 || !["manifests", "blobs", "tags", "referrers"].includes(kind ?? "")) return undefined;
  if (kind === "tags" && last !== "list") return undefined;
  const name = repositoryName(parts.slice(0, -2).join("/"));
  if (kind === "tags") return { kind, name };
  if (kind === "blobs") return { kind: "blob", name, digest: digest(last) };
  if (kind === "referrers") return { kind, name, subject: digest(last) };
  return { kind: "manifest", name, reference: readReference(last, method) };
}

function readReference(text: string, method: string): Tag | Digest {
  const reference = tryTag(text) ?? tryDigest(text);
  if (reference !== undefined) return reference;
  // Nothing can be stored under a malformed reference, so there is none.
  if (method === "GET" || method === "HEAD")
    throw ociFault(
      "MANIFEST_UNKNOWN",
      `there is no manifest ${quoted(text)}: it is neither a tag nor a digest`,
    );
  if (text.includes(":")) return digest(text);
  throw ociFault(
    "MANIFEST_INVALID",
    "a tag is 1 to 128 letters, digits, dots, dashes and underscores, and does not start with a dot or dash",
  );
}

function decodeParts(path: string): string[] {
  try {
    return path.split("/").map((part) => decodeURIComponent(part));
  } catch (error) {
    throw ociFault("NAME_INVALID", "the path holds a malformed percent escape", { cause: error });
  }
}
