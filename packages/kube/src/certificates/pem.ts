/** PEM text with one or more certificates in it. */
import { createHash, X509Certificate } from "node:crypto";
import { isIP } from "node:net";

const block = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** The certificates of a bundle one by one, each ending in a newline; what is between them is dropped. */
export function splitBundle(bundle: string): string[] {
  return (bundle.match(block) ?? []).map((pem) => `${pem}\n`);
}

export function joinBundle(certificates: readonly string[]): string {
  return certificates.join("");
}

/** Short, stable and public name of a certificate. */
export function certificateId(pem: string): string {
  return createHash("sha256").update(new X509Certificate(pem).raw).digest("hex").slice(0, 32);
}

export function bundleId(certificates: readonly string[]): string {
  return createHash("sha256").update(joinBundle(certificates)).digest("hex").slice(0, 32);
}

/** Whether the first certificate of `chain` was signed by `authority`. */
export function isIssuedBy(chain: string, authority: string): boolean {
  const leaf = new X509Certificate(chain);
  const issuer = new X509Certificate(authority);
  return leaf.checkIssued(issuer) && leaf.verify(issuer.publicKey);
}

export function isFor(chain: string, host: string): boolean {
  const leaf = new X509Certificate(chain);
  return (isIP(host) ? leaf.checkIP(host) : leaf.checkHost(host)) !== undefined;
}

/** Host names and addresses that a certificate is for. */
export function hostsOf(chain: string): string[] {
  const names = new X509Certificate(chain).subjectAltName ?? "";
  return names
    .split(", ")
    .map((name) => /^(?:DNS|IP Address):(.+)$/.exec(name)?.[1] ?? "")
    .filter((name) => name !== "");
}

export function notAfterMsOf(pem: string): number {
  return Date.parse(new X509Certificate(pem).validTo);
}
