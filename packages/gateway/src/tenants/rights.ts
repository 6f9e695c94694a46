/** What a user may do in a namespace, as the API server says. Answers are believed for a moment: a revoked right ends within seconds. */
import type { Abortable } from "@cocoon/core";
import { orAborted } from "@cocoon/core";
import { findAccessRefusal, type KubeClient, type KubeUser } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import { ExpiringMap } from "../ports/expiring-map.ts";

export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** Absent: all of the namespace. */
  readonly name?: string;
}

const believedMs = 10_000;
const lookupMs = 10_000;

export class Rights {
  readonly #client: KubeClient;
  readonly #known = new ExpiringMap<string | undefined>(believedMs);

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Throws 403 naming the right that is missing. */
  async assert(
    user: KubeUser,
    { namespace, rights }: { readonly namespace: string; readonly rights: readonly Right[] },
    options: Abortable,
  ): Promise<void> {
    for (const right of rights) {
      const refusal = await orAborted(this.#find(user, namespace, right), options);
      if (refusal === undefined) continue;
      const { verb, resource, subresource } = right;
      const what = subresource ? `${resource}/${subresource}` : resource;
      throw new ApiError(
        403,
        `${user.username ?? ""} may not ${verb} ${what} in namespace ${namespace}: ${refusal}`,
      );
    }
  }

  #find(user: KubeUser, namespace: string, right: Right): Promise<string | undefined> {
    const { username, uid, groups, extra } = user;
    const key = JSON.stringify([username, uid, groups, extra, namespace, right]);
    const attributes = { resourceAttributes: { namespace, ...right } };
    // Not the caller's own signal: others wait for the same answer.
    return this.#known.get(key, () =>
      findAccessRefusal(this.#client, { user, attributes }, { signal: AbortSignal.timeout(lookupMs) }),
    );
  }
}
