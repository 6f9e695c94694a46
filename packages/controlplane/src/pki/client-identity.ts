/** A kubeconfig for one program: a client certificate of the cluster's authority, made once and renewed in time. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeKubeconfig } from "../kubeconfig.ts";
import { issueCertificate } from "./certificate-authority.ts";
import { ensurePair, type PkiFiles } from "./cluster-pki.ts";

export interface ClientIdentity {
  /** Where the files go; the kubeconfig is `<name>.kubeconfig`. */
  readonly directory: string;
  readonly name: string;
  readonly server: string;
  readonly commonName: string;
  readonly organizations: readonly string[];
}

export function identityKubeconfig({ directory, name }: Pick<ClientIdentity, "directory" | "name">): string {
  return join(directory, `${name}.kubeconfig`);
}

export async function ensureClientIdentity(pki: PkiFiles, identity: ClientIdentity): Promise<void> {
  const { directory, name, server, commonName, organizations } = identity;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const files = { certificate: join(directory, `${name}.crt`), key: join(directory, `${name}.key`) };
  await ensurePair(files, async () => {
    const authority = {
      certificate: await readFile(pki.ca.certificate, "utf8"),
      key: await readFile(pki.ca.key, "utf8"),
    };
    return issueCertificate(authority, { commonName, organizations, usage: "client" });
  });
  const path = identityKubeconfig(identity);
  await writeKubeconfig(path, { name, server, authority: pki.ca.certificate, client: files });
}
