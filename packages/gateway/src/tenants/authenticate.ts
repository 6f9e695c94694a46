/**
 * API keys and Kubernetes tokens. A key is `e2b_` and 40 hex digits; its SHA-256 is in a Secret of the tenant's namespace, which
 * names the ServiceAccount that the key acts as. A token of a ServiceAccount works as a key of its own namespace. Any other token, and one
 * for another namespace, is written `NAMESPACE:TOKEN`: what it asks for is checked against its user's rights, and done as the account
 * `cocoon-sandbox` of that namespace.
 */
import { orAborted, type Abortable } from "@cocoon/core";
import { findTokenUser, type KubeConnection, type KubeUser, type ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import { ExpiringMap } from "../ports/expiring-map.ts";
import { hashKey, KeyLookup, readKeyHash, readKeyTenant, type KeySecret } from "./key-lookup.ts";
import { Rights, type Right } from "./rights.ts";
import { cocoonSetsRight, sandboxAccount, type Tenant } from "./tenant.ts";

const keyPattern = /^e2b_[0-9a-f]{40}$/;
const tokenPattern = /^(?:([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?):)?([\w.~+/=-]{1,16384})$/;
const accountPattern = /^system:serviceaccount:([^:]+):[^:]+$/;
const reviewedMs = 10_000;
const reviewMs = 10_000;

/** What a tenant sees of a sandbox is enough to run commands in it. */
const tenantRights: readonly Right[] = [
  { ...cocoonSetsRight, verb: "get" },
  { verb: "create", group: "", resource: "pods", subresource: "exec" },
];

export class Authenticator {
  readonly rights: Rights;
  readonly #client: KubeConnection;
  readonly #byHash: { get(key: string): Iterable<KeySecret> };
  readonly #lookup: KeyLookup;
  readonly #reviewed = new ExpiringMap<KubeUser | undefined>(reviewedMs);

  constructor(client: KubeConnection, secrets: ObjectCache<KeySecret>) {
    this.#client = client;
    this.#byHash = secrets.index(readKeyHash);
    this.#lookup = new KeyLookup(client);
    this.rights = new Rights(client);
  }

  /** Throws 401 for a key that is missing or unknown, 403 for a token without rights on sandboxes. */
  async authenticate(key: string | undefined, options: Abortable): Promise<Tenant> {
    if (!key) throw new ApiError(401, "Invalid API key: the header X-API-KEY is missing");
    if (keyPattern.test(key)) return this.#requireKey(key, options);
    const { user, namespace: given, own } = await this.#requireToken(key, options);
    const namespace = given ?? own;
    if (namespace === undefined)
      throw new ApiError(401, "Invalid API key: write a person's token as NAMESPACE:TOKEN");
    await this.rights.assert(user, { namespace, rights: tenantRights }, options);
    const { username = "" } = user;
    if (namespace === own) return { namespace, user: username, keyId: username };
    return { namespace, user: sandboxAccount(namespace), keyId: `${namespace} ${username}`, person: user };
  }

  /** Whose key or token it is. Throws 401 for an unknown one. */
  async identify(key: string, options: Abortable): Promise<Caller> {
    if (keyPattern.test(key)) return { account: (await this.#requireKey(key, options)).user };
    const { user, own } = await this.#requireToken(key, options);
    return own === undefined ? { person: user } : { account: user.username ?? "" };
  }

  /** Undefined for a token that the API server does not know. */
  async findUser(token: string, options: Abortable): Promise<KubeUser | undefined> {
    const [, namespace, , known = ""] = tokenPattern.exec(token) ?? [];
    if (known === "" || namespace !== undefined) return undefined;
    return orAborted(this.#review(known), options);
  }

  async #requireKey(key: string, options: Abortable): Promise<Tenant> {
    const tenant = await this.#findKey(key, options);
    if (!tenant) throw invalidKey();
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

  /** Whose token it is, and the namespace of a ServiceAccount. */
  async #requireToken(key: string, options: Abortable): Promise<TokenUser> {
    const [, namespace, , token = ""] = tokenPattern.exec(key) ?? [];
    const user = token === "" ? undefined : await orAborted(this.#review(token), options);
    if (!user) throw invalidKey();
    return { user, namespace, own: accountPattern.exec(user.username ?? "")?.[1] };
  }

  #review(token: string): Promise<KubeUser | undefined> {
    return this.#reviewed.get(hashKey(token), () =>
      findTokenUser(this.#client, token, { signal: AbortSignal.timeout(reviewMs) }),
    );
  }
}

/** The API server decides what an account may do; the rights of a person are checked before the gateway acts. */
export type Caller = { readonly account: string } | { readonly person: KubeUser };

interface TokenUser {
  readonly user: KubeUser;
  readonly namespace: string | undefined;
  readonly own: string | undefined;
}

function invalidKey(): ApiError {
  return new ApiError(401, "Invalid API key");
}
