/** A TLS server's certificate as something that changes while the server runs. */
import { Fault, messageOf } from "@cocoon/core";
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import type { Server as TlsServer } from "node:tls";

/** A certificate (with the chain after it) and its key, known to belong together. */
export interface ServingPair {
  /** PEM. */
  readonly certificate: string;
  /** PEM; never logged. */
  readonly privateKey: string;
  readonly fingerprint: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Where a TLS server's certificate comes from. Sources hold a usable pair from the moment they are started. */
export interface ServingCertificates extends AsyncDisposable {
  /** The pair for new connections. */
  current(): ServingPair;
  /** Calls back, in the same turn as `current` changes, until disposed. */
  onChange(listener: (pair: ServingPair) => void): Disposable;
  /** Why the certificate is not fit to be relied on; undefined when it is. Fits `ReadyCheck`. */
  readiness(): string | undefined;
  /** Negative once expired. */
  daysToExpiry(): number;
}

/** Reads a pair; an `invalid` fault says what is wrong with it. */
export function readPair(certificate: string, privateKey: string): ServingPair {
  const leaf = readCertificate(certificate);
  const key = readPrivateKey(privateKey);
  if (!leaf.checkPrivateKey(key))
    throw new Fault("invalid", "the certificate and the private key do not belong together");
  return {
    certificate,
    privateKey,
    fingerprint: leaf.fingerprint256,
    notBeforeMs: Date.parse(leaf.validFrom),
    notAfterMs: Date.parse(leaf.validTo),
  };
}

function readCertificate(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Fault("invalid", `not a PEM certificate: ${messageOf(error)}`, { cause: error });
  }
}

function readPrivateKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    // OpenSSL's text could quote the input.
    throw new Fault("invalid", "not an unencrypted PEM private key");
  }
}

const dayMs = 86_400_000;

export function daysUntil(pair: ServingPair, nowMs: number): number {
  return (pair.notAfterMs - nowMs) / dayMs;
}

/** Why a pair cannot be served at this time. */
export function validityTrouble(pair: ServingPair, nowMs: number): string | undefined {
  if (nowMs >= pair.notAfterMs)
    return `the serving certificate expired on ${new Date(pair.notAfterMs).toISOString()}`;
  if (nowMs < pair.notBeforeMs)
    return `the serving certificate is valid only from ${new Date(pair.notBeforeMs).toISOString()}`;
  return undefined;
}

/** Holds the pair and tells listeners; the part that all sources share. */
export class PairHolder {
  #pair: ServingPair;
  readonly #listeners = new Set<(pair: ServingPair) => void>();

  constructor(pair: ServingPair) {
    this.#pair = pair;
  }

  get pair(): ServingPair {
    return this.#pair;
  }

  /** False when the very same pair is already held. */
  set(pair: ServingPair): boolean {
    if (pair.certificate === this.#pair.certificate && pair.privateKey === this.#pair.privateKey)
      return false;
    this.#pair = pair;
    for (const listener of this.#listeners) listener(pair);
    return true;
  }

  onChange(listener: (pair: ServingPair) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}

/** The `key` and `cert` of a TLS server's options. */
export function tlsPair(pair: ServingPair): { readonly cert: string; readonly key: string } {
  return { cert: pair.certificate, key: pair.privateKey };
}

/**
 * Makes a running TLS server follow its certificates: new connections get the new pair, open ones keep theirs.
 * Not by SNI, because a client that calls an IP address sends none.
 */
export function followCertificates(
  server: Pick<TlsServer, "setSecureContext">,
  { certificates, options }: { readonly certificates: ServingCertificates; readonly options?: object },
): Disposable {
  server.setSecureContext({ ...options, ...tlsPair(certificates.current()) });
  return certificates.onChange((pair) => server.setSecureContext({ ...options, ...tlsPair(pair) }));
}
