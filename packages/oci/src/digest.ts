/** Content digests: `sha256:<hex>` and `sha512:<hex>`, checked while bytes pass by. */
import { createHash, hash, type Hash } from "node:crypto";
import { Fault } from "@cocoon/core";

const hexLengths = { sha256: 64, sha512: 128 } as const;
type Algorithm = keyof typeof hexLengths;

interface DigestParts {
  readonly algorithm: Algorithm;
  readonly hex: string;
}

export function tryReadDigest(text: string): DigestParts | undefined {
  const match = /^(sha256|sha512):([0-9a-f]+)$/.exec(text);
  const algorithm = match?.[1] === "sha512" ? "sha512" : "sha256";
  const hex = match?.[2];
  return hex?.length === hexLengths[algorithm] ? { algorithm, hex } : undefined;
}

export function readDigest(text: string): DigestParts {
  const parts = tryReadDigest(text);
  if (!parts) throw new Fault("invalid", `"${text.slice(0, 160)}" is not a sha256 or sha512 digest`);
  return parts;
}

export function computeDigest(bytes: Uint8Array): string {
  return `sha256:${hash("sha256", bytes, "hex")}`;
}

/** Throws unless the bytes are what the digest names. */
export function assertDigest(bytes: Uint8Array, digest: string, what: string): void {
  const { algorithm, hex } = readDigest(digest);
  if (hash(algorithm, bytes, "hex") !== hex) throw corrupt(what, digest);
}

/** Checks bytes as they pass. Call `verify` after the last one and use nothing before it returned. */
export class DigestCheck {
  readonly #hash: Hash;
  readonly #digest: string;
  readonly #what: string;

  constructor(digest: string, what: string) {
    this.#hash = createHash(readDigest(digest).algorithm);
    this.#digest = digest;
    this.#what = what;
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  verify(): void {
    if (this.#hash.digest("hex") !== readDigest(this.#digest).hex) throw corrupt(this.#what, this.#digest);
  }
}

function corrupt(what: string, digest: string): Fault {
  return new Fault("invalid", `${what}: the content does not match its digest ${digest}`);
}
