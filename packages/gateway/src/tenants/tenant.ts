/** Who calls: a namespace, and the ServiceAccount whose rights the call has. */
import type { KubeConnection, KubeObject, KubeUser, ObjectKey, RawRequest } from "@cocoon/kube";
import type { Abortable } from "@cocoon/core";
import { cocoonSets, type SetObject } from "../sandboxes/sandbox.ts";
import type { Rights } from "./rights.ts";

export interface Tenant {
  readonly namespace: string;
  /** User name at the API server. */
  readonly user: string;
  /** What limits count by. */
  readonly keyId: string;
  /** Who asks, when it is not that user: each call is checked against the rights of this one first. */
  readonly person?: KubeUser;
}

/** Whom traffic that names no tenant, and persons, act as. */
export function sandboxAccount(namespace: string): string {
  return `system:serviceaccount:${namespace}:cocoon-sandbox`;
}

export const cocoonSetsRight = { group: cocoonSets.group, resource: "cocoonsets" } as const;

export function impersonate({ user }: Pick<Tenant, "user">): Readonly<Record<string, string>> {
  return { "impersonate-user": user };
}

const verbs: Readonly<Record<string, string>> = { POST: "create", PATCH: "patch", DELETE: "delete" };
const base = `/apis/${cocoonSets.group}/${cocoonSets.version}`;

/** Sets of a tenant, with the tenant's rights: RBAC, quotas and audit see the tenant, not the gateway. */
export class TenantSets {
  readonly #client: KubeConnection;
  readonly #rights: Rights;

  constructor(client: KubeConnection, rights: Rights) {
    this.#client = client;
    this.#rights = rights;
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
    const { person, namespace } = tenant;
    const right = { ...cocoonSetsRight, verb: verbs[request.method] ?? "get" };
    if (person) await this.#rights.assert(person, { namespace, rights: [right] }, request);
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
