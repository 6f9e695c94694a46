/** Manifests, by tag or digest: exactly the bytes that were pushed, or nothing. */
import type { Handler, RouteTable } from "../http/handler.ts";
import { isManifestType, isSafeType, type Manifest } from "../content/manifest.ts";
import { getAlgorithm, computeDigest, quoted, tryDigest, tryTag, type Digest, type Tag } from "../names.ts";
import { ociFault } from "../oci-fault.ts";

const maxTagParameters = 10;

const get: Handler<"manifest"> = async (exchange, { name, reference }, { manifests }) => {
  const stored = await manifests.resolve(name, reference);
  if (!stored) throw unknownManifest(reference);
  const headers = {
    "content-type": isSafeType(stored.mediaType) ? stored.mediaType : "application/octet-stream",
    "content-length": stored.bytes.length,
    "docker-content-digest": stored.digest,
  };
  exchange.sendLarge(200, headers, stored.bytes);
};

const put: Handler<"manifest"> = async (exchange, { name, reference }, { manifests, limits }) => {
  const tags = readTags(reference, exchange.query.getAll("tag"));
  const bytes = await exchange.readBody(limits.maxManifestBytes);
  const given = tryDigest(reference);
  const actual = computeDigest(bytes, given ? getAlgorithm(given) : "sha256");
  if (given && actual !== given)
    throw ociFault("DIGEST_INVALID", `the manifest has digest ${actual}, not ${given}`);
  const pushedType = readPushedType(exchange.header("content-type"));
  if (pushedType !== undefined && !isSafeType(pushedType)) throw unsafeType(pushedType);
  const manifest = await manifests.reader.read(bytes, pushedType);
  if (!isSafeType(manifest.mediaType)) throw unsafeType(manifest.mediaType);
  assertTypesAgree(manifest);
  await manifests.put(name, { digest: actual, bytes, manifest, tags });
  const subject = manifest.subject?.digest;
  if (given && tags.length > 0) exchange.response.setHeader("oci-tag", tags);
  exchange.send(201, {
    location: `/v2/${name}/manifests/${reference}`,
    "docker-content-digest": actual,
    ...(subject === undefined ? {} : { "oci-subject": subject }),
  });
};

/** The reference itself when it is a tag; when it is a digest, the tags requested beside it. */
function readTags(reference: Tag | Digest, parameters: readonly string[]): Tag[] {
  if (!tryDigest(reference)) return [reference as Tag];
  if (parameters.length > maxTagParameters)
    throw ociFault("MANIFEST_INVALID", `at most ${maxTagParameters} tags can be given at once`, {
      as: "tooLarge",
    });
  return parameters.map((text) => {
    const tag = tryTag(text);
    if (!tag) throw ociFault("MANIFEST_INVALID", `${quoted(text)} is not a tag`);
    return tag;
  });
}

/** The type without parameters; undefined when it does not say which kind of manifest it is. */
function readPushedType(header: string | undefined): string | undefined {
  const type = header?.split(";")[0]?.trim().toLowerCase();
  return type === "" || type === "application/json" || type === "application/octet-stream" ? undefined : type;
}

function unsafeType(type: string): Error {
  return ociFault(
    "MANIFEST_INVALID",
    `media type ${quoted(type)} is not one of a manifest: application/vnd.<name>+json`,
  );
}

/** One reader must not see an image where another sees an index. */
function assertTypesAgree({ ownType, mediaType: pushedType }: Manifest): void {
  if (ownType === undefined || ownType === pushedType || !isManifestType(ownType)) return;
  if (isManifestType(pushedType))
    throw ociFault("MANIFEST_INVALID", `the manifest says it is ${ownType}, the request says ${pushedType}`);
}

const remove: Handler<"manifest"> = async (exchange, { name, reference }, { manifests }) => {
  const digest = tryDigest(reference);
  const found = digest
    ? await manifests.delete(name, digest)
    : await manifests.deleteTag(name, reference as Tag);
  if (!found) throw unknownManifest(reference);
  exchange.send(202, {});
};

function unknownManifest(reference: string): Error {
  return ociFault("MANIFEST_UNKNOWN", `there is no manifest ${reference} in this repository`);
}

export const manifestRoutes = {
  manifest: { GET: get, PUT: put, DELETE: remove },
} satisfies Partial<RouteTable>;
