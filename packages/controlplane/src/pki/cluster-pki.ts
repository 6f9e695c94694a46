/**
 * The certificates of one cluster, made once and kept; what is about to expire is made again.
 *
 *   <dir>/pki/
 *     ca.crt ca.key                      signs everything below
 *     apiserver.crt/.key                 serving
 *     apiserver-kubelet-client.crt/.key  kube-apiserver towards kubelets and etcd
 *     admin, controller-manager, scheduler .crt/.key
 *     etcd.crt/.key                      serving and peer
 *     components.crt/.key                serving of controller-manager and scheduler
 *     metrics-server.crt/.key            serving, by the name of its Service
 *     front-proxy-ca, front-proxy-client .crt/.key   for aggregated API servers
 *     service-account.key, .pub          signs service account tokens
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { tryReadFile, writeFileAtomically } from "@cocoon/core";
import {
  createAuthority,
  readExpiry,
  issueCertificate,
  type CertificateRequest,
  type KeyPair,
} from "./certificate-authority.ts";

export interface PkiFiles {
  readonly directory: string;
  readonly ca: PairFiles;
  readonly frontProxyCa: PairFiles;
  readonly serviceAccount: { readonly key: string; readonly publicKey: string };
  readonly leaf: Readonly<Record<LeafName, PairFiles>>;
}

export interface PairFiles {
  readonly certificate: string;
  readonly key: string;
}

type LeafName = keyof typeof leaves;

const loopback = ["localhost", "127.0.0.1", "::1"];
const apiServerNames = [
  "kubernetes",
  "kubernetes.default",
  "kubernetes.default.svc",
  "kubernetes.default.svc.cluster.local",
  "10.0.0.1",
];

const leaves = {
  apiserver: { commonName: "kube-apiserver", usage: "server", hosts: [...loopback, ...apiServerNames] },
  "apiserver-kubelet-client": {
    commonName: "kube-apiserver-kubelet-client",
    organizations: ["system:masters"],
    usage: "client",
  },
  admin: { commonName: "cocoon-admin", organizations: ["system:masters"], usage: "client" },
  "controller-manager": { commonName: "system:kube-controller-manager", usage: "client" },
  scheduler: { commonName: "system:kube-scheduler", usage: "client" },
  etcd: { commonName: "etcd", usage: "both", hosts: loopback },
  components: { commonName: "kube-components", usage: "server", hosts: loopback },
  "metrics-server": {
    commonName: "metrics-server",
    usage: "server",
    hosts: [...loopback, "metrics-server.kube-system.svc"],
  },
  "front-proxy-client": { commonName: "front-proxy-client", usage: "client" },
} as const satisfies Record<string, CertificateRequest>;

const renewBeforeMs = 30 * 86_400_000;

export function pkiFiles(directory: string): PkiFiles {
  const pair = (name: string): PairFiles => ({
    certificate: join(directory, `${name}.crt`),
    key: join(directory, `${name}.key`),
  });
  const names = Object.keys(leaves) as LeafName[];
  return {
    directory,
    ca: pair("ca"),
    frontProxyCa: pair("front-proxy-ca"),
    serviceAccount: {
      key: join(directory, "service-account.key"),
      publicKey: join(directory, "service-account.pub"),
    },
    leaf: Object.fromEntries(names.map((name) => [name, pair(name)])) as Record<LeafName, PairFiles>,
  };
}

/** Makes what is missing or about to expire; leaves the rest alone. */
export async function ensureClusterPki(directory: string): Promise<PkiFiles> {
  const files = pkiFiles(directory);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const [ca, frontProxyCa] = await Promise.all([
    ensurePair(files.ca, () => createAuthority("cocoon-cluster-ca")),
    ensurePair(files.frontProxyCa, () => createAuthority("cocoon-front-proxy-ca")),
    ensureServiceAccountKey(files),
  ]);
  await Promise.all(
    (Object.keys(leaves) as LeafName[]).map((name) => {
      const authority = name === "front-proxy-client" ? frontProxyCa : ca;
      return ensurePair(files.leaf[name], () => issueCertificate(authority, leaves[name]));
    }),
  );
  return files;
}

export async function ensurePair(files: PairFiles, make: () => Promise<KeyPair>): Promise<KeyPair> {
  const [certificate, key] = await Promise.all([tryReadFile(files.certificate), tryReadFile(files.key)]);
  if (certificate && key && readExpiry(certificate).getTime() - Date.now() > renewBeforeMs)
    return { certificate, key };
  const made = await make();
  await writeFileAtomically(files.key, made.key, { mode: 0o600 });
  await writeFileAtomically(files.certificate, made.certificate);
  return made;
}

async function ensureServiceAccountKey(files: PkiFiles): Promise<void> {
  const { key, publicKey } = files.serviceAccount;
  if ((await tryReadFile(key)) && (await tryReadFile(publicKey))) return;
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await writeFileAtomically(key, pair.privateKey.export({ type: "pkcs1", format: "pem" }), { mode: 0o600 });
  await writeFileAtomically(publicKey, pair.publicKey.export({ type: "spki", format: "pem" }));
}
