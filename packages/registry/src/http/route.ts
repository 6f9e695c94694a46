/**
 * From a path to what it means. Names, tags and digests are checked here, once; handlers only ever see checked ones.
 * Repository names may contain "/", so paths under /v2/ are read from their end.
 */
import {
  digest,
  repositoryName,
  tryDigest,
  tryTag,
  type Digest,
  type RepositoryName,
  type Tag,
} from "../names.ts";
import { ociFault } from "../oci-fault.ts";

export type Route =
  | { readonly kind: "ping" }
  | { readonly kind: "catalog" }
  | { readonly kind: "token" }
  | { readonly kind: "manifest"; readonly name: RepositoryName; readonly reference: Tag | Digest }
  | { readonly kind: "blob"; readonly name: RepositoryName; readonly digest: Digest }
  | { readonly kind: "uploads"; readonly name: RepositoryName }
  | { readonly kind: "upload"; readonly name: RepositoryName; readonly session: string }
  | { readonly kind: "tags"; readonly name: RepositoryName }
  | { readonly kind: "referrers"; readonly name: RepositoryName; readonly subject: Digest }
  | { readonly kind: "apiStats" }
  | { readonly kind: "apiRepositories" }
  | { readonly kind: "apiRepository"; readonly name: RepositoryName }
  | { readonly kind: "apiTags"; readonly name: RepositoryName }
  | { readonly kind: "apiTag"; readonly name: RepositoryName; readonly tag: Tag }
  | { readonly kind: "apiSync" }
  | { readonly kind: "apiTokens" }
  /** No id: what stands there is no number. */
  | { readonly kind: "apiToken"; readonly id: number | undefined }
  | { readonly kind: "apiGc" }
  | { readonly kind: "download"; readonly name: RepositoryName }
  | { readonly kind: "login" }
  | { readonly kind: "loginCallback" }
  | { readonly kind: "logout" }
  | { readonly kind: "me" }
  | { readonly kind: "home" }
  | { readonly kind: "health" }
  | { readonly kind: "ready" };

export type RouteKind = Route["kind"];
export type RouteOf<K extends RouteKind> = Extract<Route, { readonly kind: K }>;

/** What the path asks for; undefined when nothing of ours has that shape. Throws when a name in it is malformed. */
export function readRoute(path: string): Route | undefined {
  const fixed = Object.hasOwn(fixedRoutes, path) ? fixedRoutes[path] : undefined;
  if (fixed) return fixed;
  if (path.startsWith("/v2/")) return readDistributionRoute(path.slice("/v2/".length));
  if (path.startsWith("/api/")) return readApiRoute(decodeParts(path.slice("/api/".length)));
  if (path.startsWith("/dl/"))
    return { kind: "download", name: repositoryName(decodeParts(path.slice("/dl/".length)).join("/")) };
  return undefined;
}

const fixedRoutes: Readonly<Record<string, Route>> = {
  "/": { kind: "home" },
  "/v2": { kind: "ping" },
  "/v2/": { kind: "ping" },
  "/v2/_catalog": { kind: "catalog" },
  "/v2/token": { kind: "token" },
  "/api/stats": { kind: "apiStats" },
  "/api/repositories": { kind: "apiRepositories" },
  "/api/catalog/sync": { kind: "apiSync" },
  "/api/tokens": { kind: "apiTokens" },
  "/api/gc": { kind: "apiGc" },
  "/auth/me": { kind: "me" },
  "/login": { kind: "login" },
  "/login/callback": { kind: "loginCallback" },
  "/logout": { kind: "logout" },
  "/healthz": { kind: "health" },
  "/readyz": { kind: "ready" },
};

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

function readDistributionRoute(rest: string): Route | undefined {
  const parts = decodeParts(rest);
  return readUploadRoute(parts) ?? readContentRoute(parts);
}

function readUploadRoute(parts: readonly string[]): Route | undefined {
  // …/blobs/uploads, …/blobs/uploads/ and …/blobs/uploads/<session>
  const at = parts.lastIndexOf("uploads");
  if (at < 2 || parts[at - 1] !== "blobs" || at < parts.length - 2) return undefined;
  const name = repositoryName(parts.slice(0, at - 1).join("/"));
  const session = parts[at + 1] ?? "";
  return session === "" ? { kind: "uploads", name } : { kind: "upload", name, session };
}

function readContentRoute(parts: readonly string[]): Route | undefined {
  const last = parts.at(-1) ?? "";
  const kind = parts.at(-2);
  if (parts.length < 3 || !["manifests", "blobs", "tags", "referrers"].includes(kind ?? "")) return undefined;
  if (kind === "tags" && last !== "list") return undefined;
  const name = repositoryName(parts.slice(0, -2).join("/"));
  if (kind === "tags") return { kind, name };
  if (kind === "blobs") return { kind: "blob", name, digest: digest(last) };
  if (kind === "referrers") return { kind, name, subject: digest(last) };
  return { kind: "manifest", name, reference: readReference(last) };
}

function readReference(text: string): Tag | Digest {
  if (text.includes(":")) return digest(text);
  const reference = tryTag(text) ?? tryDigest(text);
  if (reference === undefined)
    throw ociFault(
      "MANIFEST_INVALID",
      "a tag is 1 to 128 letters, digits, dots, dashes and underscores, and does not start with a dot or dash",
    );
  return reference;
}

function decodeParts(path: string): string[] {
  try {
    return path.split("/").map((part) => decodeURIComponent(part));
  } catch (error) {
    throw ociFault("NAME_INVALID", "the path holds a malformed percent escape", { cause: error });
  }
}
