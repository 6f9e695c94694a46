/** A pod as a tenant may see it. */
import { ignoreFault, type Abortable } from "@cocoon/core";
import type { KubeConnection, Pod } from "@cocoon/kube";
import { impersonate } from "../tenants/tenant.ts";

export interface PodQuery extends Abortable {
  readonly namespace: string;
  readonly pod: string;
  /** Whose rights are used; undefined: the gateway's own. */
  readonly user: string | undefined;
}

/** Undefined when there is none. */
export async function tryReadPod(
  client: Pick<KubeConnection, "raw">,
  { namespace, pod, user, signal }: PodQuery,
): Promise<Pod | undefined> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}`;
  const headers = user === undefined ? {} : impersonate({ user });
  return (await ignoreFault("notFound", client.raw({ method: "GET", path, headers, signal }))) as
    | Pod
    | undefined;
}
