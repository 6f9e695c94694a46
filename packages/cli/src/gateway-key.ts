/** The API key that `up` makes, so that a first script with the SDK works at once. */
import { join } from "node:path";
import { ignoreFault, tryReadFile, writeFileAtomically, type Abortable } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { createApiKey, listApiKeys, revokeApiKey } from "./cluster/api-keys.ts";
import { findGatewayUrl, partsDirectory } from "./parts/parts.ts";
import type { Platform } from "./platform.ts";

const name = { namespace: "default", name: "up" };

export interface GatewayAccess {
  readonly url: string;
  readonly key: string;
}

/** The key that was made before, or a new one; undefined without a gateway. */
export async function ensureGatewayKey(
  { directory, kubeconfig, context }: Platform,
  { signal }: Abortable,
): Promise<GatewayAccess | undefined> {
  const url = await findGatewayUrl(directory);
  if (url === undefined) return undefined;
  const path = join(partsDirectory(directory), "gateway-key");
  await using client = await openKubeClient({ signal, kubeconfig, context });
  const known = (await tryReadFile(path))?.trim();
  const keys = await listApiKeys(client, name.namespace, { signal });
  if (known && keys.some((each) => each.name === name.name && matchesMask(known, each.mask)))
    return { url, key: known };
  await ignoreFault("notFound", revokeApiKey(client, name, { signal }));
  const key = await createApiKey(client, name, { signal });
  await writeFileAtomically(path, `${key}\n`, { mode: 0o600 });
  return { url, key };
}

function matchesMask(key: string, mask: string): boolean {
  const [start = "-", end = "-"] = mask.split("...");
  return key.startsWith(start) && key.endsWith(end);
}
