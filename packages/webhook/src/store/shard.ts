/**
 * The ConfigMaps of a pool: `cocoon-affinity-<pool>`, then `cocoon-affinity-<pool>-1`, `-2`, …: a chain in which only
 * the last one takes new reservations. A full one is sealed by the very write that fills it, and never takes a new key
 * again; then the next is made. A writer that has seen all sealed ones, and writes to the last one only in the state it
 * have seen (compare-and-swap), therefore knows every reservation there is.
 *
 * The label, not the name, says which pool one belongs to: pool `x-1` and the second shard of pool `x` would share a
 * name.
 */
import { nodeLabel, shardAnnotation, systemNamespace } from "@cocoon/contract";
import type { ConfigMap } from "@cocoon/kube";

const managedBy = { key: "app.kubernetes.io/managed-by", value: "cocoon-webhook" } as const;
export const shardSelector: string = `${managedBy.key}=${managedBy.value}`;

const namePrefix = "cocoon-affinity-";

/** Small ones are cheap to write: the server reads and writes the whole object each time. */
export const shardCapacity = 128;

export function shardName(pool: string, index: number): string {
  return index === 0 ? `${namePrefix}${pool}` : `${namePrefix}${pool}-${index}`;
}

/** The place of a shard in its pool's chain; undefined when the name is not one of that pool's. */
export function shardIndex(pool: string, name: string): number | undefined {
  if (name === shardName(pool, 0)) return 0;
  const start = `${namePrefix}${pool}-`;
  if (!name.startsWith(start)) return undefined;
  const digits = name.slice(start.length);
  return /^[1-9]\d{0,8}$/.test(digits) ? Number(digits) : undefined;
}

export function readShardPool(object: ConfigMap): string | undefined {
  return object.metadata.labels?.[nodeLabel.pool] || undefined;
}

export function isSealed(object: ConfigMap): boolean {
  return object.metadata.annotations?.[shardAnnotation.sealed] === "true";
}

export interface ShardChange {
  /** Text by key; null removes the key. */
  readonly data: Readonly<Record<string, string | null>>;
  readonly seal: boolean;
}

export function newShard(pool: string, index: number, change: ShardChange): ConfigMap {
  const data = Object.entries(change.data).filter((each): each is [string, string] => each[1] !== null);
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      namespace: systemNamespace,
      name: shardName(pool, index),
      labels: { [managedBy.key]: managedBy.value, [nodeLabel.pool]: pool },
      ...(change.seal ? { annotations: { [shardAnnotation.sealed]: "true" } } : {}),
    },
    data: Object.fromEntries(data),
  };
}

/** A merge patch that only fits the state with that version. */
export function shardPatch(resourceVersion: string, { data, seal }: ShardChange): object {
  return {
    metadata: {
      resourceVersion,
      ...(seal ? { annotations: { [shardAnnotation.sealed]: "true" } } : {}),
    },
    data,
  };
}
