/** Certificates for tests: a CA, and what it signs, valid now or expired. */
import "reflect-metadata"; // @peculiar/x509 resolves its algorithms with it
import { randomBytes, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const hourMs = 3_600_000;

export interface TestPair {
  readonly cert: string;
  readonly key: string;
}

export interface TestAuthority {
  readonly ca: string;
  /** A certificate for 127.0.0.1 and localhost, good for servers and clients. The subject is like `CN=me`. */
  issue(subject: string, options?: { readonly expired?: boolean }): Promise<TestPair>;
}

/** A new one, or the one whose certificate and key are given as PEM. */
export async function testAuthority(existing?: TestPair): Promise<TestAuthority> {
  x509.cryptoProvider.set(webcrypto as never);
  const { certificate: ca, signingKey } = existing ? await openAuthority(existing) : await newAuthority();
  return {
    ca: ca.toString("pem"),
    issue: async (subject, { expired = false } = {}) => {
      const own = await newKeys();
      const certificate = await x509.X509CertificateGenerator.create({
        subject,
        issuer: ca.subject,
        publicKey: own.publicKey,
        signingKey,
        signingAlgorithm: algorithm,
        serialNumber: serial(),
        ...validity(expired),
        extensions: [
          new x509.SubjectAlternativeNameExtension([
            { type: "ip", value: "127.0.0.1" },
            { type: "dns", value: "localhost" },
          ]),
        ],
      });
      const der = await webcrypto.subtle.exportKey("pkcs8", own.privateKey);
      return { cert: certificate.toString("pem"), key: x509.PemConverter.encode(der, "PRIVATE KEY") };
    },
  };
}

interface Authority {
  readonly certificate: x509.X509Certificate;
  readonly signingKey: webcrypto.CryptoKey;
}

async function newAuthority(): Promise<Authority> {
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=test CA ${randomBytes(4).toString("hex")}`,
    keys,
    signingAlgorithm: algorithm,
    serialNumber: serial(),
    ...validity(false),
    extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
  });
  return { certificate, signingKey: keys.privateKey };
}

async function openAuthority({ cert, key }: TestPair): Promise<Authority> {
  const der = x509.PemConverter.decodeFirst(key);
  const signingKey = await webcrypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]);
  return { certificate: new x509.X509Certificate(cert), signingKey };
}

function newKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
}

function serial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}

function validity(expired: boolean): { notBefore: Date; notAfter: Date } {
  const now = Date.now();
  return {
    notBefore: new Date(now - 24 * hourMs),
    notAfter: new Date(now + (expired ? -hourMs : 24 * hourMs)),
  };
}
