/** The user that a part is for the API server: that of its ServiceAccount, with the roles of deploy/ and no more. */
import { join } from "node:path";
import { ensureClientIdentity, identityKubeconfig } from "@cocoon/controlplane";
import { systemNamespace } from "@cocoon/contract";
import type { PartContext } from "./part.ts";

export interface ServiceAccount {
  readonly namespace: string;
  readonly name: string;
}

export const account = {
  operator: { namespace: systemNamespace, name: "cocoon-operator" },
  webhook: { namespace: systemNamespace, name: "cocoon-webhook" },
  colocation: { namespace: "cocoon-colocation", name: "cocoon-colocation" },
  dashboard: { namespace: systemNamespace, name: "cocoon-dashboard" },
  node: { namespace: systemNamespace, name: "vk-cocoon" },
  gateway: { namespace: systemNamespace, name: "cocoon-gateway" },
  metricsServer: { namespace: "kube-system", name: "metrics-server" },
  kubeProxy: { namespace: "kube-system", name: "kube-proxy" },
  coredns: { namespace: "kube-system", name: "coredns" },
} as const satisfies Record<string, ServiceAccount>;

function identitiesDirectory({ directory }: Pick<PartContext, "directory">): string {
  return join(directory, "identities");
}

export function partKubeconfig(context: PartContext, { name }: ServiceAccount): string {
  return identityKubeconfig({ directory: identitiesDirectory(context), name });
}

export async function ensureIdentities(context: PartContext): Promise<void> {
  for (const { namespace, name } of Object.values(account))
    await ensureClientIdentity(context.pki, {
      directory: identitiesDirectory(context),
      name,
      server: context.server,
      commonName: `system:serviceaccount:${namespace}:${name}`,
      organizations: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`],
    });
}
