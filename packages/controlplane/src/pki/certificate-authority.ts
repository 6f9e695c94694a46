/** The certificates of a local cluster: made by the same hand as those of webhooks, with this package's defaults. */
import { X509Certificate } from "node:crypto";
import { createAuthority as createPair, issuePair, type Validity } from "@cocoon/kube/certificates";

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

const dayMs = 86_400_000;
const backdateMs = 5 * 60_000;

function forDays(days: number): Validity {
  return { nowMs: Date.now(), forMs: days * dayMs, backdateMs };
}

export async function createAuthority(commonName: string, days = 3650): Promise<KeyPair> {
  const { certificate, privateKey } = await createPair(commonName, forDays(days));
  return { certificate, key: privateKey };
}

export async function issueCertificate(authority: KeyPair, request: CertificateRequest): Promise<KeyPair> {
  const { days = 365, hosts = [], ...bearer } = request;
  const signer = { certificate: authority.certificate, privateKey: authority.key };
  const { certificate, privateKey } = await issuePair(signer, { ...bearer, hosts }, forDays(days));
  return { certificate, key: privateKey };
}

export function readExpiry(certificate: string): Date {
  return new Date(new X509Certificate(certificate).validTo);
}
