/**
 * API keys and Kubernetes tokens. A key is `e2b_` and 40 hex digits; its SHA-256 is in a Secret of the tenant's namespace, which
 * names the ServiceAccount that the key acts as. A token of a ServiceAccount works as a key of its own namespace.
 */
import { isFault, type Abortable } from "@cocoon/core";
import type { KubeConnection, ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import { hashKey, KeyLookup, readKeyHash, readKeyTenant, type KeySecret } from "./key-lookup.ts";
import type { Tenant } from "./tenant.ts";

const keyPattern = /^e2b_[0-9a-f]{40}$/;
const reviewedMs = 10_000;
const mostReviewed = 10_000;

export class Authenticator {
  readonly #client: KubeConnection;
  readonly #byHash: { get(key: string): Iterable<KeySecret> };
  readonly #lookup: KeyLookup;
  readonly #reviewed = new Map<string, { readonly tenant: Tenant | undefined; readonly until: number }>();

  constructor(client: KubeConnection, secrets: ObjectCache<KeySecret>) {
    this.#client = client;
    this.#byHash = secrets.index(readKeyHash);
    this.#lookup = new KeyLookup(client);
  }

  /** Throws 401 for a key that is missing or unknown. */
  async authenticate(key: string | undefined, options: Abortable): Promise<Tenant> {
    if (!key) throw new ApiError(401, "Invalid API key: the header X-API-KEY is missing");
    const tenant = await (keyPattern.test(key) ? this.#findKey(key, options) : this.#review(key, options));
    if (!tenant) throw new ApiError(401, "Invalid API key");
    return tenant;
  }

  /** One that was made a moment ago may not be in the cache yet. */
  async #findKey(key: string, options: Abortable): Promise<Tenant | undefined> {
    const hash = hashKey(key);
    for (const secret of this.#byHash.get(hash)) {
      const tenant = readKeyTenant(secret);
      if (tenant) return tenant;
    }
    return this.#lookup.find(hash, options);
  }

  async #review(token: string, options: Abortable): Promise<Tenant | undefined> {
    if (token.length > 16_384 || !/^[\w.~+/=-]+$/.test(token)) return undefined;
    const hash = hashKey(token);
    const known = this.#reviewed.get(hash);
    if (known && known.until > performance.now()) return known.tenant;
    const tenant = await this.#askApiServer(token, options);
    if (this.#reviewed.size >= mostReviewed) this.#reviewed.clear();
    this.#reviewed.set(hash, { tenant, until: performance.now() + reviewedMs });
    return tenant;
  }

  async #askApiServer(token: string, { signal }: Abortable): Promise<Tenant | undefined> {
    const review = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token } };
    try {
      const { status } = (await this.#client.raw({
        method: "POST",
        path: "/apis/authentication.k8s.io/v1/tokenreviews",
        body: review,
        signal,
      })) as { status?: { authenticated?: boolean; user?: { username?: string } } };
      const user = status?.authenticated ? (status.user?.username ?? "") : "";
      const namespace = /^system:serviceaccount:([^:]+):[^:]+$/.exec(user)?.[1];
      return namespace ? { namespace, user, keyId: user } : undefined;
    } catch (error) {
      if (isFault(error, "unauthorized") || isFault(error, "forbidden")) return undefined;
      throw error;
    }
  }
}
