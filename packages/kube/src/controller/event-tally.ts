/**
 * How often each event occurred. A repetition raises a count, many messages of one reason become one event, an object with too
 * many different events is silenced for a while; the least recently used is forgotten first.
 */
import type { Clock } from "@cocoon/core";
import { cut, computeDigest, type EventInput, type EventReference } from "./event-object.ts";
import { TokenBucket } from "./token-bucket.ts";

export interface Tally {
  readonly key: string;
  readonly regarding: EventReference;
  event: Required<EventInput>;
  count: number;
  firstAt: number;
  lastAt: number;
}

interface Group {
  readonly messages: Set<string>;
  since: number;
}

const maxTallies = 4_096;
/** More different messages than this in the window become one event. */
const maxMessages = 10;
const groupWindowMs = 10 * 60_000;
/** The server forgets events after an hour by default: then it is a new one. */
const tallyLifeMs = 60 * 60_000;
const perSubject = { burst: 25, refillMs: 5 * 60_000 };

export class EventTallies {
  readonly #clock: Clock;
  readonly #tallies = new Map<string, Tally>();
  readonly #groups = new Map<string, Group>();
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts the event; undefined when its object has too many events already. */
  count(regarding: EventReference, input: EventInput): Tally | undefined {
    const subject = computeDigest([
      regarding.kind,
      regarding.namespace,
      regarding.name,
      regarding.uid,
      regarding.fieldPath,
    ]);
    const { event, combined } = this.#combine(subject, cut(input));
    const key = computeDigest([
      subject,
      event.type,
      event.reason,
      event.action,
      combined ? "" : event.message,
    ]);
    const now = this.#clock.wallNow();
    const known = this.#tallies.get(key);
    if (known && now - known.lastAt < tallyLifeMs) {
      Object.assign(known, { count: known.count + 1, lastAt: now, event });
      return touch(this.#tallies, key, known);
    }
    if (!this.#takeToken(subject)) return undefined;
    const tally: Tally = { key, regarding, event, count: 1, firstAt: now, lastAt: now };
    return touch(this.#tallies, key, tally);
  }

  forget(tally: Tally): void {
    if (this.#tallies.get(tally.key) === tally) this.#tallies.delete(tally.key);
  }

  get size(): number {
    return this.#tallies.size + this.#groups.size + this.#buckets.size;
  }

  #combine(
    subject: string,
    event: Required<EventInput>,
  ): { readonly event: Required<EventInput>; readonly combined: boolean } {
    const key = computeDigest([subject, event.type, event.reason]);
    const now = this.#clock.now();
    let group = this.#groups.get(key);
    if (!group || now - group.since > groupWindowMs) group = { messages: new Set(), since: now };
    touch(this.#groups, key, group);
    if (group.messages.size <= maxMessages) group.messages.add(computeDigest([event.message]));
    if (group.messages.size <= maxMessages) return { event, combined: false };
    const message = `(combined from similar events): ${event.message}`;
    return { event: cut({ ...event, message }), combined: true };
  }

  #takeToken(subject: string): boolean {
    const now = this.#clock.now();
    const bucket = this.#buckets.get(subject) ?? new TokenBucket(perSubject, now);
    return touch(this.#buckets, subject, bucket).take(now) === 0;
  }
}

function touch<V>(map: Map<string, V>, key: string, value: V): V {
  map.delete(key);
  map.set(key, value);
  const oldest = map.keys().next().value;
  if (map.size > maxTallies && oldest !== undefined) map.delete(oldest);
  return value;
}
