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

/** The same few certificates are checked at every probe and every look; parsing and verifying them is slow. */
function remember<T>(compute: (...texts: readonly string[]) => T): (...texts: readonly string[]) => T {
  const known = new Map<string, T>();
  return (...texts) => {
    const key = texts.join("\0");
    const before = known.get(key);
    if (before !== undefined) return before;
    if (known.size >= 64) known.clear();
    const value = compute(...texts);
    known.set(key, value);
    return value;
  };
}

const parse = remember((pem = "") => new X509Certificate(pem));

const issued = remember((chain = "", authority = "") => {
  const issuer = parse(authority);
  return parse(chain).checkIssued(issuer) && parse(chain).verify(issuer.publicKey);
});

export function certificateId(pem: string): string {
  return createHash("sha256").update(parse(pem).raw).digest("hex").slice(0, 32);
}

export function isIssuedBy(chain: string, authority: string): boolean {
  return issued(chain, authority);
}

export function isFor(chain: string, host: string): boolean {
  const leaf = parse(chain);
  return (isIP(host) ? leaf.checkIP(host) : leaf.checkHost(host)) !== undefined;
}

export function readHosts(chain: string): string[] {
  const names = parse(chain).subjectAltName ?? "";
  return names
    .split(", ")
    .map((name) => /^(?:DNS|IP Address):(.+)$/.exec(name)?.[1] ?? "")
    .filter((name) => name !== "");
}

export function readNotAfterMs(pem: string): number {
  return Date.parse(parse(pem).validTo);
}
