/** A TLS server's certificate as something that changes while the server runs. */
import { Fault, MetricFactory, getErrorMessage, type Clock, type Registry } from "@cocoon/core";
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import type { Server as TlsServer } from "node:tls";

/** A certificate (with the chain after it) and its key, known to belong together. */
export interface ServingPair {
  readonly certificate: string;
  /** PEM; never logged. */
  readonly privateKey: string;
  readonly fingerprint: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** Where a TLS server's certificate comes from. Sources hold a usable pair from the moment they are started. */
export interface ServingCertificates extends AsyncDisposable {
  current(): ServingPair;
  onChange(listener: (pair: ServingPair) => void): Disposable;
  /** Why the certificate is not fit to be relied on; undefined when it is. Fits `ReadyCheck`. */
  readiness(): string | undefined;
  daysToExpiry(): number;
}

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
    throw new Fault("invalid", `not a PEM certificate: ${getErrorMessage(error)}`, { cause: error });
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

export function findValidityProblem(pair: ServingPair, nowMs: number): string | undefined {
  if (nowMs >= pair.notAfterMs)
    return `the serving certificate expired on ${new Date(pair.notAfterMs).toISOString()}`;
  if (nowMs < pair.notBeforeMs)
    return `the serving certificate is valid only from ${new Date(pair.notBeforeMs).toISOString()}`;
  return undefined;
}

export class PairHolder {
  #pair: ServingPair;
  readonly #listeners = new Set<(pair: ServingPair) => void>();

  constructor(pair: ServingPair) {
    this.#pair = pair;
  }

  get pair(): ServingPair {
    return this.#pair;
  }

  set(pair: ServingPair): boolean {
    if (pair.certificate === this.#pair.certificate && pair.privateKey === this.#pair.privateKey)
      return false;
    this.#pair = pair;
    for (const listener of this.#listeners) listener(pair);
    return true;
  }

  /** The pair as a source of certificates that needs no more than this to be ready. */
  serve(clock: Clock, stop: () => Promise<void>): ServingCertificates {
    return {
      current: () => this.#pair,
      onChange: (listener) => this.onChange(listener),
      readiness: () => findValidityProblem(this.#pair, clock.wallNow()),
      daysToExpiry: () => daysUntil(this.#pair, clock.wallNow()),
      [Symbol.asyncDispose]: stop,
    };
  }

  onChange(listener: (pair: ServingPair) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}

export function tlsPair(pair: ServingPair): { readonly cert: string; readonly key: string } {
  return { cert: pair.certificate, key: pair.privateKey };
}

/** New connections get the new pair, open ones keep theirs. Not by SNI: a client of an IP address sends none. */
export function followCertificates(
  server: Pick<TlsServer, "setSecureContext">,
  { certificates, options }: { readonly certificates: ServingCertificates; readonly options?: object },
): Disposable {
  server.setSecureContext({ ...options, ...tlsPair(certificates.current()) });
  return certificates.onChange((pair) => server.setSecureContext({ ...options, ...tlsPair(pair) }));
}

export function exportCertificateMetrics(
  registry: Registry,
  certificates: Pick<ServingCertificates, "daysToExpiry" | "readiness">,
  prefix = "serving_certificate",
): void {
  const metrics = new MetricFactory(registry, `${prefix}_`);
  metrics.gauge("days_to_expiry", "Days until the certificate that is served expires; negative afterwards.", {
    collect: (gauge) => gauge.set(certificates.daysToExpiry()),
  });
  metrics.gauge("ready", "1 when the certificate is valid and trusted where it must be, else 0.", {
    collect: (gauge) => gauge.set(certificates.readiness() === undefined ? 1 : 0),
  });
}
