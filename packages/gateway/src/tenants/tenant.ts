/** Who calls: a namespace, and the ServiceAccount whose rights the call has. */
import type { KubeConnection, KubeObject, ObjectKey, RawRequest } from "@cocoon/kube";
import type { Abortable } from "@cocoon/core";
import { cocoonSets, type SetObject } from "../sandboxes/sandbox.ts";

export interface Tenant {
  readonly namespace: string;
  /** User name at the API server. */
  readonly user: string;
  /** What limits count by. */
  readonly keyId: string;
}

export function impersonate({ user }: Pick<Tenant, "user">): Readonly<Record<string, string>> {
  return { "impersonate-user": user };
}

const base = `/apis/${cocoonSets.group}/${cocoonSets.version}`;

/** Sets of a tenant, with the tenant's rights: RBAC, quotas and audit see the tenant, not the gateway. */
export class TenantSets {
  readonly #client: KubeConnection;

  constructor(client: KubeConnection) {
    this.#client = client;
  }

  create(tenant: Tenant, object: KubeObject, { signal }: Abortable): Promise<SetObject> {
    return this.#call(tenant, {
      method: "POST",
      path: collection(tenant.namespace),
      body: object,
      signal,
    });
  }

  get(tenant: Tenant, name: string, { signal }: Abortable): Promise<SetObject> {
    return this.#call(tenant, {
      method: "GET",
      path: path({ namespace: tenant.namespace, name }),
      signal,
    });
  }

  // oxlint-disable-next-line max-params -- whose, which, what
  patch(tenant: Tenant, name: string, body: unknown, { signal }: Abortable): Promise<SetObject> {
    return this.#call(tenant, {
      method: "PATCH",
      path: path({ namespace: tenant.namespace, name }),
      contentType: "application/merge-patch+json",
      body,
      signal,
    });
  }

  async delete(
    tenant: Tenant,
    { name, uid }: { readonly name: string; readonly uid: string },
    { signal }: Abortable,
  ): Promise<void> {
    const body = { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid } };
    await this.#call(tenant, {
      method: "DELETE",
      path: path({ namespace: tenant.namespace, name }),
      body,
      signal,
    });
  }

  async #call(tenant: Tenant, { contentType, ...request }: RawRequest): Promise<SetObject> {
    const headers = impersonate(tenant);
    return (await this.#client.raw({
      ...request,
      headers,
      ...(contentType ? { contentType } : {}),
    })) as SetObject;
  }
}

function collection(namespace: string): string {
  return `${base}/namespaces/${encodeURIComponent(namespace)}/cocoonsets`;
}

function path({ namespace = "", name }: ObjectKey): string {
  return `${collection(namespace)}/${encodeURIComponent(name)}`;
}
