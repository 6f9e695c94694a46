/** What the gateway watches, with its own rights: sandboxes, snapshots, and the hashes of keys. */
import { gatewayKey } from "@cocoon/contract";
import type { Abortable, Logger } from "@cocoon/core";
import { openCaches, secrets, type KubeConnection, type ObjectCache } from "@cocoon/kube";
import { cocoonSets, type SetObject } from "../sandboxes/sandbox.ts";
import { keySelector, type KeySecret } from "../tenants/key-lookup.ts";

export interface GatewayCaches extends AsyncDisposable {
  readonly sandboxes: ObjectCache<SetObject>;
  readonly snapshots: ObjectCache<SetObject>;
  readonly pool: ObjectCache<SetObject>;
  readonly keys: ObjectCache<KeySecret>;
  /** Rejects when one of them can no longer be relied on. */
  readonly failed: Promise<never>;
}

export async function openGatewayCaches(
  client: KubeConnection,
  { log, signal }: Abortable & { readonly log: Logger },
): Promise<GatewayCaches> {
  const caches = openCaches({ client, log });
  const sandboxes = caches.open<SetObject>(cocoonSets, { labelSelector: `${gatewayKey.sandbox}=true` });
  const snapshots = caches.open<SetObject>(cocoonSets, { labelSelector: gatewayKey.template });
  const pool = caches.open<SetObject>(cocoonSets, { labelSelector: gatewayKey.pool });
  const keys = caches.open<KeySecret>(secrets, { labelSelector: keySelector });
  const all = [sandboxes, snapshots, pool, keys];
  await Promise.all(all.map((cache) => cache.synced({ signal })));
  return {
    sandboxes,
    snapshots,
    pool,
    keys,
    failed: Promise.race(all.map((cache) => cache.failed)),
    [Symbol.asyncDispose]: () => caches[Symbol.asyncDispose](),
  };
}
