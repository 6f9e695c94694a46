/**
 * Who a part is for the API server: the user that its ServiceAccount would be in a cluster, with the same rights and no
 * more. So the roles in deploy/ are what it runs with here, too.
 */
import { join } from "node:path";
import { ensureClientIdentity, identityKubeconfig } from "@cocoon/controlplane";
import { systemNamespace } from "@cocoon/contract";
import type { PartContext } from "./part.ts";

interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

export const account = {
  operator: { namespace: systemNamespace, name: "cocoon-operator" },
  webhook: { namespace: systemNamespace, name: "cocoon-webhook" },
  colocation: { namespace: "cocoon-colocation", name: "cocoon-colocation" },
  node: { namespace: systemNamespace, name: "vk-cocoon" },
} as const satisfies Record<string, ServiceAccount>;

function identitiesDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "identities");
}

export function partKubeconfig(context: PartContext, { name }: ServiceAccount): string {
  return identityKubeconfig({ directory: identitiesDirectory(context), name });
}

/** One after the other: nodes share theirs. */
export async function ensureIdentities(context: PartContext): Promise<void> {
  for (const each of Object.values(account)) await ensureIdentity(context, each);
}

async function ensureIdentity(context: PartContext, { namespace, name }: ServiceAccount): Promise<void> {
  await ensureClientIdentity(context.pki, {
    directory: identitiesDirectory(context),
    name,
    server: context.server,
    commonName: `system:serviceaccount:${namespace}:${name}`,
    organizations: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`],
  });
}
