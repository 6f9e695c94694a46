/** A small certificate authority: ECDSA P-256, kept as PEM files, certificates for servers and for clients. */
import "reflect-metadata"; // @peculiar/x509 resolves its algorithms with it
import { webcrypto } from "node:crypto";
import { isIP } from "node:net";
import * as x509 from "@peculiar/x509";

x509.cryptoProvider.set(webcrypto as never);

export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

export interface CertificateRequest {
  readonly commonName: string;
  /** Kubernetes reads these as the groups of a client. */
  readonly organizations?: readonly string[];
  readonly usage: "server" | "client" | "both";
  readonly hosts?: readonly string[];
  readonly days?: number;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const dayMs = 86_400_000;
const usages = {
  server: [x509.ExtendedKeyUsage.serverAuth],
  client: [x509.ExtendedKeyUsage.clientAuth],
  both: [x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth],
};

export async function createAuthority(commonName: string, days = 3650): Promise<KeyPair> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [commonName] }],
    keys,
    signingAlgorithm: algorithm,
    serialNumber: serialNumber(),
    ...validity(days),
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign | x509.KeyUsageFlags.digitalSignature,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: pemText(certificate.toString("pem")), key: await privateKeyPem(keys) };
}

export async function issueCertificate(authority: KeyPair, request: CertificateRequest): Promise<KeyPair> {
  const keys = await generateKeys();
  const issuer = new x509.X509Certificate(authority.certificate);
  const organizations = request.organizations ?? [];
  const subject = [...organizations.map((each) => ({ O: [each] })), { CN: [request.commonName] }];
  const hosts = (request.hosts ?? []).map(
    (host) => ({ type: isIP(host) ? "ip" : "dns", value: host }) as const,
  );
  const certificate = await x509.X509CertificateGenerator.create({
    subject,
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: await importPrivateKey(authority.key),
    signingAlgorithm: algorithm,
    serialNumber: serialNumber(),
    ...validity(request.days ?? 365),
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment,
        true,
      ),
      new x509.ExtendedKeyUsageExtension(usages[request.usage]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
      ...(hosts.length > 0 ? [new x509.SubjectAlternativeNameExtension(hosts)] : []),
    ],
  });
  return { certificate: pemText(certificate.toString("pem")), key: await privateKeyPem(keys) };
}

/** When the certificate ends. */
export function expiryOf(certificate: string): Date {
  return new x509.X509Certificate(certificate).notAfter;
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
}

async function privateKeyPem(keys: webcrypto.CryptoKeyPair): Promise<string> {
  return pemText(
    x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey), "PRIVATE KEY"),
  );
}

function importPrivateKey(pem: string): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey("pkcs8", x509.PemConverter.decodeFirst(pem), algorithm, false, ["sign"]);
}

function pemText(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}

/** The first byte stays below 0x80: a serial number is a positive integer. */
function serialNumber(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01;
  return Buffer.from(bytes).toString("hex");
}

/** Begins five minutes ago: clocks of other processes and machines may be behind ours. */
function validity(days: number): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return { notBefore: new Date(now - 5 * 60_000), notAfter: new Date(now + days * dayMs) };
}
