/**
 * Read your own writes: what this process wrote shows at once, whatever the cache knows yet. A controller that asks
 * here, not the cache, never creates a child twice, never deletes one twice, and never plans from its own past.
 *
 * The design is one overlay and one rule. Every answer of the server is laid over the cache with the version it
 * carries, and stays there until the cache has taken in that version. Versions of one kind only grow, so from then on
 * the cache knows the write and everything that happened to the object since.
 *
 *   written      the server's answer; until the cache has seen its version
 *   unresolved   a create whose answer was lost: it may be there. Shown as sent, so that nobody makes another one,
 *                until it is seen or could no longer arrive
 *   deleted      shown as being deleted until the cache shows the same, or another object (UID) of that name
 *
 * It lives in memory. What protects across crashes and leaders is the name: derive it from the owner, then the server
 * refuses a second one, and `ensure` takes the first for what it is.
 */
import { Fault, isFault, toFault, type Logger } from "@cocoon/core";
import type { DeleteOptions, KubeClient, Patch, WriteOptions } from "../client.ts";
import { keyOf, keyText, type KubeObject, type ObjectKey, type ResourceType } from "../object.ts";
import { clockSleep, systemClock, type Clock } from "./clock.ts";
import { controllerOf, isControlledBy } from "./owner-references.ts";
import { includesVersion } from "./resource-version.ts";
import type { Source } from "./source.ts";

export interface OwnWritesOptions<T extends KubeObject> {
  readonly client: KubeClient;
  readonly type: ResourceType<T>;
  readonly source: Source<T>;
  readonly log: Logger;
  readonly clock?: Clock;
  /** An unresolved create is given up after this time: the owner, if there is one, should be looked at again. */
  readonly onGivenUp?: (object: T) => void;
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
  readonly #timers = new Map<string, () => void>();
  #subscription: Disposable | undefined;

  constructor(options: OwnWritesOptions<T>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** How many writes the cache has not shown yet. */
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

  ownedBy(owner: KubeObject): T[] {
    return this.merge(this.#options.source.list(), (object) => isControlledBy(object, owner));
  }

  /** Objects from an index of the cache, corrected and completed by our writes; `belongs` is the index's condition. */
  merge(indexed: Iterable<T>, belongs: (object: T) => boolean): T[] {
    const result: T[] = [];
    const seen = new Set<string>();
    for (const object of indexed) {
      const text = keyText(keyOf(object));
      seen.add(text);
      const current = this.#view(text, object);
      if (current && belongs(current)) result.push(current);
    }
    for (const [text, entry] of this.#entries) {
      if (seen.has(text)) continue;
      const current = this.#view(text, this.#options.source.get(keyOf(entry.object)));
      if (current && belongs(current)) result.push(current);
    }
    return result;
  }

  /**
   * Creates the object, once: when it exists already with the same managing owner, that one is returned. May be
   * repeated. Throws `alreadyExists` when the name belongs to somebody else.
   */
  async ensure(object: T, options: WriteOptions): Promise<T> {
    const key = keyOf(object);
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
      const uncertain = isUncertain(error) || options.signal.aborted;
      if (uncertain) this.#lookLater(keyText(key));
      else if (this.#entries.get(keyText(key)) === unresolved) this.#restore(keyText(key), before);
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
    if (!uid) throw new Fault("invalid", `${keyText(keyOf(object))} has no uid: it was never confirmed`);
    this.#assertRoom();
    const preconditions = { ...options.preconditions, uid };
    try {
      await this.#options.client.delete(this.#options.type, keyOf(object), { ...options, preconditions });
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
    }
    if (!options.dryRun) this.#put("deleted", object);
  }

  /** Begins to follow the source, so that the overlay shrinks as the cache catches up. */
  start(): this {
    this.#subscription ??= this.#options.source.subscribe((change) =>
      this.#sweep(keyText(keyOf(change.object))),
    );
    return this;
  }

  [Symbol.dispose](): void {
    this.#subscription?.[Symbol.dispose]();
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
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
      // The same name again: if the lost one arrived after all, the server says so.
      await clockSleep(this.#clock, 100 * 3 ** attempt, options.signal);
    }
  }

  async #adopt(object: T, { signal }: WriteOptions, refusal: Fault): Promise<T> {
    const existing = await this.#options.client.get(this.#options.type, keyOf(object), { signal });
    const wanted = controllerOf(object)?.uid;
    if (wanted === undefined || controllerOf(existing)?.uid !== wanted) {
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
    const key = keyOf(object);
    const lifeMs = kind === "unresolved" ? unresolvedMs : longestLagMs;
    const entry = { kind, object, expiresAt: this.#clock.now() + lifeMs };
    this.#entries.delete(keyText(key)); // the newest goes last
    this.#entries.set(keyText(key), entry);
    this.#look(keyText(key)); // the event may have been faster than the answer
    return entry;
  }

  /** Nobody may ask in the meantime; whoever waits for the object must hear that it never came. */
  #lookLater(text: string): void {
    this.#timers.get(text)?.();
    const look = (): void => {
      this.#timers.delete(text);
      this.#look(text);
    };
    this.#timers.set(text, this.#clock.schedule(unresolvedMs, look));
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
    if (entry.kind === "unresolved") this.#options.onGivenUp?.(entry.object);
    return cached;
  }

  /** The key that changed, and the oldest entries as far as the cache has passed them. */
  #sweep(changed: string): void {
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
    if (entry) this.#view(text, this.#options.source.get(keyOf(entry.object)));
  }
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
