/**
 * Read your own writes: what this process wrote shows at once, whatever the cache knows yet.
 *
 * Every answer of the server is laid over the cache until the cache has taken in its version. Versions of one kind only grow.
 *
 *   written      the server's answer; until the cache has seen its version
 *   unresolved   a create whose answer was lost: shown as sent until it is seen or could no longer arrive
 *   deleted      shown as being deleted until the cache shows the same, or another object (UID) of that name
 *
 * Across crashes and leaders the name protects: derived from the owner, the server refuses a second one.
 */
import {
  clockSleep,
  Fault,
  isFault,
  systemClock,
  toFault,
  type Clock,
  type Logger,
  ignoreFault,
} from "@cocoon/core";
import type { DeleteOptions, KubeClient, Patch, WriteOptions } from "../client/client.ts";
import {
  getKey,
  keyText,
  type KubeObject,
  type ObjectKey,
  type ResourceType,
  includesVersion,
} from "../object.ts";
import { findController } from "./owner-references.ts";
import type { Change, Source } from "./watches.ts";

export interface OwnWritesOptions<T extends KubeObject> {
  readonly client: KubeClient;
  readonly type: ResourceType<T>;
  readonly source: Source<T>;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly maxEntries?: number;
}

interface Entry<T> {
  readonly kind: "written" | "unresolved" | "deleted";
  readonly object: T;
  readonly expiresAt: number;
}

/** Longer than the server works on a request (60 s): after that a lost create cannot appear any more. */
const unresolvedMs = 90_000;
/** A cache that did not catch up for this long is broken; its own alarms have rung. */
const longestLagMs = 10 * 60_000;
const createAttempts = 4;

export class OwnWrites<T extends KubeObject> implements Disposable {
  readonly #options: OwnWritesOptions<T>;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry<T>>();
  #subscription: Disposable | undefined;
  #highest: string | undefined;

  constructor(options: OwnWritesOptions<T>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  get pending(): number {
    return this.#entries.size;
  }

  get(key: ObjectKey): T | undefined {
    return this.#view(keyText(key), this.#options.source.get(key));
  }

  list(): Iterable<T> {
    return this.#entries.size === 0
      ? this.#options.source.list()
      : this.merge(this.#options.source.list(), () => true);
  }

  /** Objects from an index of the cache, corrected and completed by our writes; `belongs` is the index's condition. */
  merge(indexed: Iterable<T>, belongs: (object: T) => boolean): T[] {
    const result: T[] = [];
    const seen = new Set<string>();
    for (const object of indexed) {
      const text = keyText(getKey(object));
      seen.add(text);
      const current = this.#view(text, object);
      if (current && belongs(current)) result.push(current);
    }
    for (const [text, entry] of this.#entries) {
      if (seen.has(text)) continue;
      const current = this.#view(text, this.#options.source.get(getKey(entry.object)));
      if (current && belongs(current)) result.push(current);
    }
    return result;
  }

  /** Creates the object once: an existing one of the same owner is returned. Throws `alreadyExists` for another owner's. */
  async ensure(object: T, options: WriteOptions): Promise<T> {
    const key = getKey(object);
    if (key.name === "")
      throw new Fault(
        "invalid",
        `${this.#options.type.kind} without a name: choose it, a generated one is lost with the answer`,
      );
    this.#assertRoom();
    const before = this.#entries.get(keyText(key));
    const unresolved = options.dryRun ? undefined : this.#put("unresolved", object);
    try {
      return this.#written(await this.#create(object, options), options);
    } catch (error) {
      const isCertain = !isUncertain(error) && !options.signal.aborted;
      if (isCertain && this.#entries.get(keyText(key)) === unresolved) this.#restore(keyText(key), before);
      throw error;
    }
  }

  async update(object: T, options: WriteOptions): Promise<T> {
    this.#assertRoom();
    return this.#written(await this.#options.client.update(this.#options.type, object, options), options);
  }

  async patch(target: { readonly key: ObjectKey; readonly patch: Patch }, options: WriteOptions): Promise<T> {
    this.#assertRoom();
    return this.#written(await this.#options.client.patch(this.#options.type, target, options), options);
  }

  /** Deletes this very object, by UID: a successor of the same name is left alone. May be repeated. */
  async delete(object: T, options: DeleteOptions): Promise<void> {
    const { uid } = object.metadata;
    if (!uid) throw new Fault("invalid", `${keyText(getKey(object))} has no uid: it was never confirmed`);
    this.#assertRoom();
    const preconditions = { ...options.preconditions, uid };
    await ignoreFault(
      "notFound",
      this.#options.client.delete(this.#options.type, getKey(object), { ...options, preconditions }),
    );
    if (!options.dryRun) this.#put("deleted", object);
  }

  start(): this {
    this.#subscription ??= this.#options.source.subscribe((change) => {
      if (isOlderState(change)) this.#entries.clear();
      this.#sweep(keyText(getKey(change.object)));
    });
    return this;
  }

  [Symbol.dispose](): void {
    this.#subscription?.[Symbol.dispose]();
    this.#entries.clear();
  }

  async #create(object: T, options: WriteOptions): Promise<T> {
    const { client, type } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await client.create(type, object, options);
      } catch (error) {
        if (isFault(error, "alreadyExists")) return this.#adopt(object, options, error);
        if (!isUncertain(error) || options.signal.aborted || attempt === createAttempts) throw error;
      }
      // The same name again: if the lost one arrived after all, the server refuses it.
      await clockSleep(this.#clock, 100 * 3 ** attempt, options.signal);
    }
  }

  async #adopt(object: T, { signal }: WriteOptions, refusal: Fault): Promise<T> {
    const existing = await this.#options.client.get(this.#options.type, getKey(object), { signal });
    const wanted = findController(object)?.uid;
    if (wanted === undefined || findController(existing)?.uid !== wanted) {
      this.#put("written", existing); // the cache does not know it yet, or we would not have tried
      throw refusal;
    }
    return existing;
  }

  #assertRoom(): void {
    const { maxEntries = 10_000, type } = this.#options;
    if (this.#entries.size >= maxEntries) this.#sweepAll();
    if (this.#entries.size >= maxEntries)
      throw new Fault("unavailable", `the cache of ${type.plural} is ${maxEntries} of our own writes behind`);
  }

  #written(object: T, { dryRun }: WriteOptions): T {
    if (!dryRun) this.#put("written", object);
    return object;
  }

  #put(kind: Entry<T>["kind"], object: T): Entry<T> {
    const key = getKey(object);
    const lifeMs = kind === "unresolved" ? unresolvedMs : longestLagMs;
    const entry = { kind, object, expiresAt: this.#clock.now() + lifeMs };
    this.#entries.delete(keyText(key)); // the newest goes last
    this.#entries.set(keyText(key), entry);
    this.#look(keyText(key)); // the event may have been faster than the answer
    return entry;
  }

  #restore(text: string, before: Entry<T> | undefined): void {
    if (before) this.#entries.set(text, before);
    else this.#entries.delete(text);
  }

  /** What to show for a key; drops the entry when the cache has overtaken it. */
  #view(text: string, cached: T | undefined): T | undefined {
    const entry = this.#entries.get(text);
    if (!entry) return cached;
    if (this.#isOvertaken(entry, cached)) {
      this.#entries.delete(text);
      return cached;
    }
    if (this.#clock.now() >= entry.expiresAt) return this.#giveUp(text, entry, cached);
    return entry.kind === "deleted" ? asDeleting(cached ?? entry.object, this.#clock) : entry.object;
  }

  #isOvertaken({ kind, object }: Entry<T>, cached: T | undefined): boolean {
    const seen = this.#options.source.resourceVersion;
    const { uid, resourceVersion } = object.metadata;
    if (kind === "unresolved") return cached !== undefined;
    if (kind === "written")
      return (
        includesVersion(seen, resourceVersion) ||
        includesVersion(cached?.metadata.resourceVersion, resourceVersion)
      );
    if (cached === undefined) return includesVersion(seen, resourceVersion);
    if (cached.metadata.uid === uid) return cached.metadata.deletionTimestamp !== undefined;
    // Another object of that name: a successor, or, before the cache saw ours, a predecessor.
    return includesVersion(cached.metadata.resourceVersion, resourceVersion);
  }

  // oxlint-disable-next-line max-params -- what is known about one key
  #giveUp(text: string, entry: Entry<T>, cached: T | undefined): T | undefined {
    this.#entries.delete(text);
    const fields = { object: `${this.#options.type.kind} ${text}`, state: entry.kind };
    this.#options.log.warn(fields, "own write was never seen in the cache");
    return cached;
  }

  /** Versions that went backwards come from another history, such as a restored etcd: it has none of these writes. */
  #dropIfRestored(): void {
    const { resourceVersion } = this.#options.source;
    const isRestored = this.#highest !== undefined && !includesVersion(resourceVersion, this.#highest);
    this.#highest = resourceVersion;
    if (isRestored) this.#entries.clear();
  }

  /** The key that changed, and the oldest entries as far as the cache has passed them. */
  #sweep(changed: string): void {
    this.#dropIfRestored();
    if (this.#entries.size === 0) return;
    this.#look(changed);
    for (const text of this.#entries.keys()) {
      this.#look(text);
      if (this.#entries.has(text)) return;
    }
  }

  #sweepAll(): void {
    for (const text of this.#entries.keys()) this.#look(text);
  }

  #look(text: string): void {
    const entry = this.#entries.get(text);
    if (entry) this.#view(text, this.#options.source.get(getKey(entry.object)));
  }
}

/** An object that became older: its storage was restored, also when the version of the collection has caught up since. */
function isOlderState<T extends KubeObject>(change: Change<T>): boolean {
  if (change.kind !== "updated") return false;
  const before = change.old.metadata.resourceVersion;
  return before !== undefined && !includesVersion(change.object.metadata.resourceVersion, before);
}

/** The server may have done it: no answer came, or one that does not say. */
function isUncertain(error: unknown): boolean {
  const { code } = toFault(error);
  return code === "timeout" || code === "unavailable" || code === "internal";
}

function asDeleting<T extends KubeObject>(object: T, clock: Clock): T {
  if (object.metadata.deletionTimestamp) return object;
  const deletionTimestamp = new Date(clock.wallNow()).toISOString();
  return { ...object, metadata: { ...object.metadata, deletionTimestamp } };
}
