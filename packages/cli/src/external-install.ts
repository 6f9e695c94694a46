/** Puts Cocoon into a cluster that exists elsewhere: deploy/install.yaml, and the registry's token. */
import { randomBytes } from "node:crypto";
import { systemNamespace } from "@cocoon/contract";
import { isFault, type Abortable } from "@cocoon/core";
import { keyText, secrets, type KubeClient } from "@cocoon/kube";
import { applyTo, fieldManager, readManifests } from "./parts/apply.ts";

const tokenSecret = { namespace: systemNamespace, name: "epoch-token" };
const tokenBytes = 32;

export interface InstallOptions extends Abortable {
  readonly report: (text: string) => void;
}

/** Repeatable: what is there is brought to this version, the token stays. */
export async function installInto(client: KubeClient, options: InstallOptions): Promise<void> {
  await applyTo(client, await readManifests("install.yaml"), options);
  await ensureToken(client, options);
}

/** Made once: hibernated machines were pushed with the old one. */
async function ensureToken(client: KubeClient, { signal, report }: InstallOptions): Promise<void> {
  const token = randomBytes(tokenBytes).toString("hex");
  const secret = { apiVersion: "v1", kind: "Secret", metadata: tokenSecret, stringData: { token } };
  try {
    await client.create(secrets, secret, { signal, fieldManager });
    report(`Secret ${keyText(tokenSecret)}`);
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error;
  }
}
