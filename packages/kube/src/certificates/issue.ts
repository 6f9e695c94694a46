/** Makes certificates: ECDSA P-256, an authority of one's own or a server certificate that stands alone. */
import "reflect-metadata"; // @peculiar/x509 resolves its algorithms with it
import { createPrivateKey, webcrypto, type KeyObject } from "node:crypto";
import { isIP } from "node:net";
import * as x509 from "@peculiar/x509";
import { Fault } from "@cocoon/core";

x509.cryptoProvider.set(webcrypto as never);

export interface IssuedPair {
  readonly certificate: string;
  readonly privateKey: string;
}

export interface Validity {
  readonly nowMs: number;
  readonly forMs: number;
  /** Begins this much earlier: clocks of other machines may be behind ours. */
  readonly backdateMs: number;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** The name carries a random part: two generations must not look like one authority to a verifier. */
export async function createAuthority(name: string, validity: Validity): Promise<IssuedPair> {
  const keys = await generateKeys();
  const serialNumber = randomSerial();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [`${name} ${serialNumber.slice(0, 8)}`] }],
    keys,
    signingAlgorithm: algorithm,
    serialNumber,
    ...computeDates(validity),
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return written(certificate, keys);
}

export interface ServerNames {
  readonly commonName: string;
  readonly hosts: readonly string[];
}

export interface Bearer extends ServerNames {
  /** Kubernetes reads these as the groups of a client. */
  readonly organizations?: readonly string[];
  readonly usage: "server" | "client" | "both";
}

export function issueServingPair(
  authority: IssuedPair,
  names: ServerNames,
  validity: Validity,
): Promise<IssuedPair> {
  return issuePair(authority, { ...names, usage: "server" }, validity);
}

export async function issuePair(
  authority: IssuedPair,
  bearer: Bearer,
  validity: Validity,
): Promise<IssuedPair> {
  const keys = await generateKeys();
  const issuer = new x509.X509Certificate(authority.certificate);
  const signer = await importSigner(authority.privateKey);
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [...(bearer.organizations ?? []).map((name) => ({ O: [name] })), { CN: [bearer.commonName] }],
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: signer.key,
    signingAlgorithm: signer.algorithm,
    serialNumber: randomSerial(),
    ...computeDates(validity),
    extensions: [
      ...bearerExtensions(bearer),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return written(certificate, keys);
}

export async function createSelfSignedPair(names: ServerNames, validity: Validity): Promise<IssuedPair> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [names.commonName] }],
    keys,
    signingAlgorithm: algorithm,
    serialNumber: randomSerial(),
    ...computeDates(validity),
    extensions: bearerExtensions({ ...names, usage: "server" }),
  });
  return written(certificate, keys);
}

const keyUsages = {
  server: [x509.ExtendedKeyUsage.serverAuth],
  client: [x509.ExtendedKeyUsage.clientAuth],
  both: [x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth],
};

function bearerExtensions({ hosts, usage }: Bearer): x509.Extension[] {
  const names = [...new Set(hosts)].map(
    (host) => ({ type: isIP(host) ? "ip" : "dns", value: host }) as const,
  );
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension(keyUsages[usage]),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
  ];
}

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
}

async function written(
  certificate: x509.X509Certificate,
  keys: webcrypto.CryptoKeyPair,
): Promise<IssuedPair> {
  const key = await webcrypto.subtle.exportKey("pkcs8", keys.privateKey);
  return {
    certificate: withNewline(certificate.toString("pem")),
    privateKey: withNewline(x509.PemConverter.encode(key, "PRIVATE KEY")),
  };
}

interface Signer {
  readonly key: webcrypto.CryptoKey;
  readonly algorithm: webcrypto.EcdsaParams | webcrypto.Algorithm;
}

/** Authorities made by other programs may have RSA keys or another curve. */
async function importSigner(pem: string): Promise<Signer> {
  const key = createPrivateKey(pem);
  const form = importForm(key);
  const pkcs8 = key.export({ type: "pkcs8", format: "der" });
  return {
    key: await webcrypto.subtle.importKey("pkcs8", Uint8Array.from(pkcs8), form, false, ["sign"]),
    algorithm: form,
  };
}

const curves: Readonly<Record<string, { readonly namedCurve: string; readonly hash: string }>> = {
  prime256v1: { namedCurve: "P-256", hash: "SHA-256" },
  secp384r1: { namedCurve: "P-384", hash: "SHA-384" },
};

function importForm(key: KeyObject): webcrypto.RsaHashedImportParams | webcrypto.EcKeyImportParams {
  if (key.asymmetricKeyType === "rsa") return { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const curve = curves[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (key.asymmetricKeyType !== "ec" || !curve)
    throw new Fault("invalid", "the authority's key must be RSA, or ECDSA on P-256 or P-384");
  return { name: "ECDSA", ...curve };
}

function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}

/** The first byte stays below 0x80: a serial number is a positive integer. */
function randomSerial(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x01;
  return Buffer.from(bytes).toString("hex");
}

function computeDates({ nowMs, forMs, backdateMs }: Validity): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(nowMs - backdateMs), notAfter: new Date(nowMs + forMs) };
}
