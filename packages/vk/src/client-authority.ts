/** Whose client certificates the kubelet API accepts: a file, else what the API server itself publishes. */
import { readFile } from "node:fs/promises";
import { Fault, type Abortable } from "@cocoon/core";
import { configMaps, type KubeClient } from "@cocoon/kube";

export interface ClientAuthorityOptions extends Abortable {
  readonly client: KubeClient;
  readonly file: string | undefined;
}

export async function readClientAuthority({ client, file, signal }: ClientAuthorityOptions): Promise<string> {
  if (file) return readFile(file, "utf8");
  const key = { namespace: "kube-system", name: "extension-apiserver-authentication" };
  const published = await client.get(configMaps, key, { signal });
  const authority = published.data?.["client-ca-file"];
  if (!authority)
    throw new Fault(
      "invalid",
      "the API server publishes no client authority; name one with VK_CLIENT_CA (a PEM file)",
    );
  return authority;
}
