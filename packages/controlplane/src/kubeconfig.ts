/** Kubeconfig files with the credentials inside, readable by their owner only. */
import { readFile } from "node:fs/promises";
import { writeFileAtomically } from "@cocoon/core";
import { stringify } from "yaml";
import type { PairFiles } from "./pki/cluster-pki.ts";

export interface KubeconfigSpec {
  readonly server: string;
  readonly authority: string;
  readonly client: PairFiles;
  readonly name: string;
}

export async function writeKubeconfig(path: string, spec: KubeconfigSpec): Promise<void> {
  const [authority, certificate, key] = await Promise.all(
    [spec.authority, spec.client.certificate, spec.client.key].map(async (file) =>
      (await readFile(file)).toString("base64"),
    ),
  );
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": spec.name,
    clusters: [
      { name: spec.name, cluster: { server: spec.server, "certificate-authority-data": authority } },
    ],
    users: [{ name: spec.name, user: { "client-certificate-data": certificate, "client-key-data": key } }],
    contexts: [{ name: spec.name, context: { cluster: spec.name, user: spec.name } }],
  };
  await writeFileAtomically(path, stringify(config), { mode: 0o600 });
}
