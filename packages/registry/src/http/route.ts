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
  | { readonly kind: "health" }
  | { readonly kind: "ready" };

export type RouteKind = Route["kind"];
export type RouteOf<K extends RouteKind> = Extract<Route, { readonly kind: K }>;

/** What the path asks for; undefined when nothing of ours has that shape. Throws when a name in it is malformed. */
export function readRoute(path: string): Route | undefined {
  if (path === "/healthz") return { kind: "health" };
  if (path === "/readyz") return { kind: "ready" };
  if (path === "/v2" || path === "/v2/") return { kind: "ping" };
  if (path.startsWith("/v2/")) return readDistributionRoute(path.slice("/v2/".length));
  return undefined;
}

function readDistributionRoute(rest: string): Route | undefined {
  if (rest === "_catalog") return { kind: "catalog" };
  if (rest === "token") return { kind: "token" };
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
