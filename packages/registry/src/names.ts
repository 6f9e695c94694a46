/**
 * The words of a registry: repository names, tags and digests. Each is a type of its own that only the functions
 * here make, so that nothing which did not pass its grammar can ever become part of a path or a key.
 */
import { createHash, hash, type Hash } from "node:crypto";
import { isDigest, isRepository, isTag } from "@cocoon/contract";
import { ociFault } from "./oci-fault.ts";

declare const brand: unique symbol;
type Branded<Kind extends string> = string & { readonly [brand]: Kind };

export type RepositoryName = Branded<"repository">;
export type Tag = Branded<"tag">;
/** `algorithm:hex`, algorithm and length checked. */
export type Digest = Branded<"digest">;
export type DigestAlgorithm = "sha256" | "sha512";

export function tryRepositoryName(text: string): RepositoryName | undefined {
  return isRepository(text) ? (text as RepositoryName) : undefined;
}

export function repositoryName(text: string): RepositoryName {
  const name = tryRepositoryName(text);
  if (name === undefined)
    throw ociFault(
      "NAME_INVALID",
      `repository name ${quoted(text)} is not valid: lower-case letters and digits, separated by . _ __ - or /, at most 255 characters`,
    );
  return name;
}

export function tryTag(text: string): Tag | undefined {
  return isTag(text) ? (text as Tag) : undefined;
}

export function tryDigest(text: string): Digest | undefined {
  return isDigest(text) ? (text as Digest) : undefined;
}

export function digest(text: string): Digest {
  const parsed = tryDigest(text);
  if (parsed === undefined)
    throw ociFault(
      "DIGEST_INVALID",
      `digest ${quoted(text)} is not valid: sha256 with 64 or sha512 with 128 lower-case hex digits`,
    );
  return parsed;
}

export function getAlgorithm(digest: Digest): DigestAlgorithm {
  return digest.startsWith("sha512:") ? "sha512" : "sha256";
}

export function computeDigest(bytes: Uint8Array, algorithm: DigestAlgorithm = "sha256"): Digest {
  return `${algorithm}:${hash(algorithm, bytes, "hex")}` as Digest;
}

export class RunningDigest {
  readonly algorithm: DigestAlgorithm;
  readonly #hash: Hash;

  constructor(algorithm: DigestAlgorithm) {
    this.algorithm = algorithm;
    this.#hash = createHash(algorithm);
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  digest(): Digest {
    return `${this.algorithm}:${this.#hash.digest("hex")}` as Digest;
  }
}

/** Text from outside, short and harmless enough for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
