/** Writes to the ConfigMaps: each succeeds only on the state that it was decided on. */
import { nodeLabel, systemNamespace } from "@cocoon/contract";
import { Coalesced, ignoreFault, type Abortable } from "@cocoon/core";
import { configMaps, type ConfigMap, type KubeClient } from "@cocoon/kube";
import type { ReservationIndex } from "./reservation-index.ts";
import * as z from "zod";
import { newShard, shardName, shardPatch, shardSelector, type ShardChange } from "./shard.ts";

const writeTimeoutMs = 4_000;
const answerSchema = z.object({ metadata: z.object({ resourceVersion: z.string() }) });

export interface ShardWritesOptions extends Abortable {
  readonly client: KubeClient;
  readonly reserved: ReservationIndex;
  readonly count: () => void;
}

export class ShardWrites {
  readonly #client: KubeClient;
  readonly #index: ReservationIndex;
  readonly #count: () => void;
  readonly #everything: Coalesced<void>;

  constructor({ client, reserved, count, signal }: ShardWritesOptions) {
    this.#client = client;
    this.#index = reserved;
    this.#count = count;
    this.#everything = new Coalesced(() => this.#refreshAll(undefined, { signal }));
  }

  /** `alreadyExists` when another writer was first. */
  create(
    pool: string,
    at: { readonly index: number; readonly change: ShardChange },
    options: Abortable,
  ): Promise<ConfigMap> {
    this.#count();
    const object = newShard(pool, at.index, at.change);
    return this.#client.create(configMaps, object, { ...options, timeoutMs: writeTimeoutMs });
  }

  /** The version that the change led to; `conflict` when the shard has changed since `version`. */
  async patch(
    name: string,
    at: { readonly version: bigint; readonly change: ShardChange },
    { signal }: Abortable,
  ): Promise<bigint> {
    this.#count();
    const answer = await this.#client.raw({
      method: "PATCH",
      path: `/api/v1/namespaces/${systemNamespace}/configmaps/${encodeURIComponent(name)}`,
      contentType: "application/merge-patch+json",
      // We know what is in it: the answer need not repeat a hundred kilobytes.
      headers: { accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" },
      body: shardPatch(String(at.version), at.change),
      signal,
      timeoutMs: writeTimeoutMs,
    });
    return BigInt(answerSchema.parse(answer).metadata.resourceVersion);
  }

  async refresh(name: string, options: Abortable): Promise<void> {
    const known = this.#index.shard(name);
    const call = { ...options, timeoutMs: writeTimeoutMs };
    const key = { namespace: systemNamespace, name };
    const shard = await ignoreFault("notFound", this.#client.get(configMaps, key, call));
    if (shard) this.#index.apply(shard);
    else if (known) this.#index.forget(name, known.version);
  }

  refreshPool(pool: string, options: Abortable): Promise<void> {
    return this.#refreshAll(pool, options);
  }

  /** Looks at the shards of all pools again; those who ask at the same time share it. */
  refreshEverything(): Promise<void> {
    return this.#everything.get();
  }

  async #refreshAll(pool: string | undefined, options: Abortable): Promise<void> {
    const labelSelector = pool === undefined ? shardSelector : `${shardSelector},${nodeLabel.pool}=${pool}`;
    const pages = this.#client.pages(configMaps, { namespace: systemNamespace, labelSelector, ...options });
    const found = new Set<string>();
    const before = [...this.#index.shards()].filter((each) => pool === undefined || each.pool === pool);
    for await (const page of pages)
      for (const object of page.items) {
        found.add(object.metadata.name ?? "");
        this.#index.apply(object);
      }
    for (const shard of before) if (!found.has(shard.name)) this.#index.forget(shard.name, shard.version);
  }

  async delete(name: string, version: bigint, options: Abortable): Promise<void> {
    this.#count();
    await this.#client.delete(
      configMaps,
      { namespace: systemNamespace, name },
      { ...options, preconditions: { resourceVersion: String(version) } },
    );
    this.#index.forget(name, version);
  }
}

/** Where new reservations of a pool go now. */
export type OpenShard =
  | { readonly kind: "shard"; readonly name: string }
  | { readonly kind: "create"; readonly index: number }
  /** A lower one still takes new keys: it has to be sealed before a higher one may be used. */
  | { readonly kind: "seal"; readonly name: string };

export function findOpenShard(
  pool: string,
  reserved: ReservationIndex,
  isOccupied: (name: string) => boolean,
): OpenShard {
  const chain = reserved.listShards(pool);
  const last = chain.at(-1);
  const unsealed = chain.find((shard) => !shard.sealed);
  if (unsealed && unsealed !== last) return { kind: "seal", name: unsealed.name };
  if (last && !last.sealed) return { kind: "shard", name: last.name };
  let index = last ? last.index + 1 : 0;
  while (isOccupied(shardName(pool, index)) || reserved.shard(shardName(pool, index))) index += 1;
  return { kind: "create", index };
}
