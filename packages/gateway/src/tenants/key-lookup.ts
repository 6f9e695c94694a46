/**
 * Keys that the cache does not show. A key may have been made a moment ago, so the API server is asked before it is refused: once
 * for all requests with the same key, not again for a moment after a "no", and only so often a second for all keys together.
 */
import { createHash } from "node:crypto";
import { gatewayKey } from "@cocoon/contract";
import { orAborted, type Abortable } from "@cocoon/core";
import type { KubeConnection, KubeObject } from "@cocoon/kube";
import { RateLimit } from "./rate-limit.ts";
import type { Tenant } from "./tenant.ts";

export interface KeySecret extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export const keySelector = `${gatewayKey.apiKey}=true`;
const unknownMs = 2_000;
const mostUnknown = 10_000;
const lookupMs = 10_000;
const lookupsPerSecond = 20;

export function hashKey(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** For the cache's index. */
export function readKeyHash(secret: KeySecret): readonly string[] {
  const hash = decode(secret, "hash");
  return hash ? [hash] : [];
}

/** Undefined for a key that is being revoked. */
export function readKeyTenant(secret: KeySecret): Tenant | undefined {
  const { namespace = "", name = "", deletionTimestamp } = secret.metadata;
  if (deletionTimestamp !== undefined) return undefined;
  const account = decode(secret, "serviceAccount") || "cocoon-sandbox";
  return {
    namespace,
    user: `system:serviceaccount:${namespace}:${account}`,
    keyId: `${namespace}/${name}`,
  };
}

function decode({ data }: KeySecret, field: string): string {
  return Buffer.from(data?.[field] ?? "", "base64").toString("utf8");
}

export class KeyLookup {
  readonly #client: Pick<KubeConnection, "raw">;
  readonly #pending = new Map<string, Promise<Tenant | undefined>>();
  /** Until when a hash is known to be no key. */
  readonly #unknown = new Map<string, number>();
  readonly #limit = new RateLimit({ perSecond: lookupsPerSecond, burst: 5 * lookupsPerSecond });

  constructor(client: Pick<KubeConnection, "raw">) {
    this.#client = client;
  }

  /** Throws 429 when too many unknown keys were tried: that says nothing about this one. */
  find(hash: string, options: Abortable): Promise<Tenant | undefined> {
    if ((this.#unknown.get(hash) ?? 0) > performance.now()) return Promise.resolve(undefined);
    return orAborted(this.#pending.get(hash) ?? this.#start(hash), options);
  }

  #start(hash: string): Promise<Tenant | undefined> {
    this.#limit.take("unknown keys");
    const lookup = this.#read(hash).finally(() => this.#pending.delete(hash));
    lookup.catch(() => undefined);
    this.#pending.set(hash, lookup);
    return lookup;
  }

  async #read(hash: string): Promise<Tenant | undefined> {
    const selector = `${keySelector},${gatewayKey.apiKeyHash}=${hash.slice(0, 40)}`;
    const { items = [] } = (await this.#client.raw({
      method: "GET",
      path: `/api/v1/secrets?labelSelector=${encodeURIComponent(selector)}`,
      signal: AbortSignal.timeout(lookupMs),
    })) as { items?: readonly KeySecret[] };
    for (const secret of items) {
      const tenant = readKeyHash(secret).includes(hash) ? readKeyTenant(secret) : undefined;
      if (tenant) return tenant;
    }
    if (this.#unknown.size >= mostUnknown) this.#unknown.clear();
    this.#unknown.set(hash, performance.now() + unknownMs);
    return undefined;
  }
}
