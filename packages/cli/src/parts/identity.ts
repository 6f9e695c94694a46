/**
 * Who a part is for the API server: the user that its ServiceAccount would be in a cluster, with the same rights and no
 * more. So the roles in deploy/ are what it runs with here, too.
 */
import { join } from "node:path";
import { ensureClientIdentity, identityKubeconfig } from "@cocoon/controlplane";
import type { PartContext } from "./part.ts";

export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

function identitiesDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "identities");
}

export function partKubeconfig(context: PartContext, { name }: ServiceAccount): string {
  return identityKubeconfig({ directory: identitiesDirectory(context), name });
}

export async function ensureIdentity(
  context: PartContext,
  { namespace, name }: ServiceAccount,
): Promise<void> {
  await ensureClientIdentity(context.pki, {
    directory: identitiesDirectory(context),
    name,
    server: context.server,
    commonName: `system:serviceaccount:${namespace}:${name}`,
    organizations: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`],
  });
}
