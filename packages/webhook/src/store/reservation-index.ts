/**
 * All reservations as this process knows them: what the store held when it was last seen, plus what is being written
 * right now. Every state of a shard carries its version, so news that arrive late change nothing.
 */
import type { ConfigMap } from "@cocoon/kube";
import { MultiMap } from "../multi-map.ts";
import { formatOwnerKey, numberedPrefix, tryReadEntry, type Entry } from "./entry.ts";
import { isSealed, readShardPool, shardIndex } from "./shard.ts";

export interface Shard {
  readonly name: string;
  readonly pool: string;
  readonly index: number;
  readonly version: bigint;
  readonly sealed: boolean;
  readonly held: ReadonlyMap<string, Held>;
}

export interface Held {
  readonly key: string;
  readonly shard: string;
  readonly text: string;
  readonly entry: Entry;
  /** Version of the shard in which we saw this text first: what it says was true before. */
  readonly seenVersion: bigint;
}

type MutableShard = Omit<Shard, "held"> & { readonly held: Map<string, Held> };

/** Gets every claim whose pod has not been seen yet. */
export interface ClaimObserver {
  add(claim: string, node: string): void;
  remove(claim: string): void;
}

export class ReservationIndex {
  readonly #pending: ClaimObserver;
  readonly #shards = new Map<string, MutableShard>();
  readonly #byVmName = new MultiMap<string, Held>();
  readonly #byPrefix = new MultiMap<string, Held>();
  readonly #byClaim = new Map<string, Held>();
  readonly #ownersByPrefix = new Map<string, Map<string, number>>();
  readonly #inFlight = new Map<string, Entry>();

  constructor(pending: ClaimObserver) {
    this.#pending = pending;
  }

  /** Takes in a state of a shard, unless a newer one is known. */
  apply(object: ConfigMap): void {
    const { name = "", resourceVersion = "0" } = object.metadata;
    const pool = readShardPool(object);
    const index = pool === undefined ? undefined : shardIndex(pool, name);
    if (pool === undefined || index === undefined) return;
    const version = BigInt(resourceVersion);
    const known = this.#shards.get(name);
    if (known && known.version >= version) return;
    const held = new Map<string, Held>();
    for (const [key, text] of Object.entries(object.data ?? {})) {
      const before = known?.held.get(key);
      if (before?.text === text) held.set(key, before);
      else {
        const entry = tryReadEntry(text);
        if (entry) held.set(key, { key, shard: name, text, entry, seenVersion: version });
      }
    }
    this.#replace(known, { name, pool, index, version, sealed: isSealed(object), held });
  }

  /** Takes in what we wrote ourselves: the change, and the version it led to. */
  applyOwn(name: string, change: OwnChange): void {
    const known = this.#shards.get(name);
    if (!known || known.version >= change.version) return;
    const { version, sealed } = change;
    const next: MutableShard = { ...known, version, sealed: known.sealed || sealed };
    for (const { key, text, entry } of change.put) {
      this.#drop(known.held.get(key));
      const held = { key, shard: name, text, entry, seenVersion: version };
      known.held.set(key, held);
      this.#index(held);
    }
    for (const key of change.removed) {
      this.#drop(known.held.get(key));
      known.held.delete(key);
    }
    this.#shards.set(name, next);
  }

  /** The shard is gone since that version. */
  forget(name: string, version: bigint): void {
    const known = this.#shards.get(name);
    if (!known || known.version > version) return;
    for (const held of known.held.values()) this.#drop(held);
    this.#shards.delete(name);
  }

  #replace(known: MutableShard | undefined, next: MutableShard): void {
    for (const [key, held] of known?.held ?? []) if (next.held.get(key) !== held) this.#drop(held);
    for (const [key, held] of next.held) if (known?.held.get(key) !== held) this.#index(held);
    this.#shards.set(next.name, next);
  }

  #index(held: Held): void {
    const { vmName, claim, node, podUid, goneSince } = held.entry;
    this.#byVmName.add(vmName, held);
    if (claim !== "") this.#byClaim.set(claim, held);
    if (podUid === "" && goneSince === "") this.#pending.add(claim, node);
    const prefix = numberedPrefix(vmName);
    if (prefix === undefined) return;
    this.#byPrefix.add(prefix, held);
    const owners = this.#ownersByPrefix.get(prefix) ?? new Map<string, number>();
    const key = formKey(held.entry);
    owners.set(key, (owners.get(key) ?? 0) + 1);
    this.#ownersByPrefix.set(prefix, owners);
  }

  #drop(held: Held | undefined): void {
    if (!held) return;
    const { vmName, claim } = held.entry;
    this.#byVmName.remove(vmName, held);
    if (this.#byClaim.get(claim) === held) this.#byClaim.delete(claim);
    this.#pending.remove(claim);
    const prefix = numberedPrefix(vmName);
    if (prefix === undefined) return;
    this.#byPrefix.remove(prefix, held);
    const owners = this.#ownersByPrefix.get(prefix);
    const key = formKey(held.entry);
    const left = (owners?.get(key) ?? 0) - 1;
    if (left > 0) owners?.set(key, left);
    else owners?.delete(key);
    if (owners?.size === 0) this.#ownersByPrefix.delete(prefix);
  }

  shard(name: string): Shard | undefined {
    return this.#shards.get(name);
  }

  shards(): Iterable<Shard> {
    return this.#shards.values();
  }

  listShards(pool: string): Shard[] {
    return [...this.#shards.values()]
      .filter((shard) => shard.pool === pool)
      .toSorted((left, right) => left.index - right.index);
  }

  /** More than one only while two writers fight over a name, or a shard is being rewritten. */
  holding(vmName: string): Iterable<Held> {
    return this.#byVmName.get(vmName);
  }

  heldBy(claim: string): Held | undefined {
    return claim === "" ? undefined : this.#byClaim.get(claim);
  }

  /** All entries whose names are this prefix and a number. */
  below(prefix: string): Iterable<Held> {
    return this.#byPrefix.get(prefix);
  }

  /** Who holds names below that prefix: `slot Deployment lab/demo`, `pod StatefulSet lab/demo`. */
  formsBelow(prefix: string): Iterable<string> {
    return this.#ownersByPrefix.get(prefix)?.keys() ?? [];
  }

  /** Marks a name as being written; this process does not give it to another pod meanwhile. */
  begin(entry: Entry): void {
    this.#inFlight.set(entry.vmName, entry);
    this.#pending.add(entry.claim, entry.node);
  }

  /** It was written, or it was not: then what it requested of its node is not counted any more. */
  end({ vmName, claim }: Entry, written: boolean): void {
    this.#inFlight.delete(vmName);
    if (!written) this.#pending.remove(claim);
  }

  inFlight(vmName: string): Entry | undefined {
    return this.#inFlight.get(vmName);
  }

  get size(): number {
    let total = 0;
    for (const shard of this.#shards.values()) total += shard.held.size;
    return total;
  }
}

export interface OwnChange {
  readonly version: bigint;
  readonly sealed: boolean;
  readonly put: readonly { readonly key: string; readonly text: string; readonly entry: Entry }[];
  readonly removed: readonly string[];
}

/** An owner that names by slot claims all numbers; pods that are named by themselves claim theirs alone. */
export function formKey(entry: Pick<Entry, "namespace" | "owner" | "deployment">): string {
  return `${entry.deployment === "" ? "pod" : "slot"} ${formatOwnerKey(entry)}`;
}
