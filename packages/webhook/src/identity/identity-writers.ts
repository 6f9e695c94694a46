/**
 * Who may write a machine's identity: users with the right to `update machineidentities` cluster-wide, reviewed by the API
 * server (SubjectAccessReview) and remembered for a short while. The admission policy checks the same right.
 */
import { apiGroup } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import { resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";
import type { UserInfo } from "@cocoon/kube/admission";

interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly uid: string;
    readonly groups: readonly string[];
    readonly extra: Readonly<Record<string, readonly string[]>>;
    readonly resourceAttributes: { readonly verb: string; readonly group: string; readonly resource: string };
  };
  readonly status?: { readonly allowed?: boolean };
}

const reviews = resourceType<SubjectAccessReview>({
  group: "authorization.k8s.io",
  version: "v1",
  kind: "SubjectAccessReview",
  namespaced: false,
});

const rememberMs = 30_000;
const maxRemembered = 1_000;
const timeoutMs = 3_000;

export class IdentityWriters {
  readonly #client: KubeClient;
  readonly #known = new Map<string, { readonly isWriter: boolean; readonly untilMs: number }>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Throws when the API server cannot be reached. */
  async includes({ username, uid, groups, extra }: UserInfo, { signal }: Abortable): Promise<boolean> {
    const key = JSON.stringify([username, uid, groups, extra]);
    const known = this.#known.get(key);
    if (known && known.untilMs > performance.now()) return known.isWriter;
    const review = await this.#client.create(
      reviews,
      {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        metadata: {},
        spec: {
          user: username,
          uid,
          groups,
          extra,
          resourceAttributes: { verb: "update", group: apiGroup, resource: "machineidentities" },
        },
      },
      { signal, timeoutMs },
    );
    const isWriter = review.status?.allowed === true;
    this.#remember(key, isWriter);
    return isWriter;
  }

  #remember(key: string, isWriter: boolean): void {
    const oldest = this.#known.keys().next().value;
    if (this.#known.size >= maxRemembered && oldest !== undefined) this.#known.delete(oldest);
    this.#known.delete(key);
    this.#known.set(key, { isWriter, untilMs: performance.now() + rememberMs });
  }
}
