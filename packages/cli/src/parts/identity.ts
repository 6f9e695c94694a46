/**
 * Who a part is for the API server: the user that its ServiceAccount would be in a cluster, with the same rights and no
 * more. So the roles in deploy/ are what it runs with here, too.
 */
import { join } from "node:path";
import { ensureClientIdentity, identityKubeconfig } from "@cocoon/controlplane";
import { systemNamespace } from "@cocoon/contract";
import type { PartContext } from "./part.ts";

function identitiesDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "identities");
}

export function partKubeconfig(context: PartContext, serviceAccount: string): string {
  return identityKubeconfig({ directory: identitiesDirectory(context), name: serviceAccount });
}

export async function ensureIdentity(context: PartContext, serviceAccount: string): Promise<void> {
  await ensureClientIdentity(context.pki, {
    directory: identitiesDirectory(context),
    name: serviceAccount,
    server: context.server,
    commonName: `system:serviceaccount:${systemNamespace}:${serviceAccount}`,
    organizations: ["system:serviceaccounts", `system:serviceaccounts:${systemNamespace}`],
  });
}
