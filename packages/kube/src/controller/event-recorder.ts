/**
 * Events for people. Recording never waits and never throws. A repetition raises the count of the same event at growing
 * intervals; without a server events wait, up to a limit, then they are dropped and counted.
 */
import {
  backoffMs,
  Counter,
  isFault,
  openMetric,
  getErrorMessage,
  systemClock,
  toFault,
  type Clock,
  type Logger,
  type Registry,
} from "@cocoon/core";
import type { CoreEvent } from "../builtin-objects.ts";
import type { KubeClient } from "../client/client.ts";
import {
  coreEvents,
  eventObject,
  repetition,
  type EventInput,
  type EventReference,
  type EventWriter,
} from "./event-object.ts";
import { EventTallies, type Tally } from "./event-tally.ts";
import { TokenBucket } from "./token-bucket.ts";

export interface EventRecorder extends AsyncDisposable {
  /** Notes that something happened to an object. Never throws, never waits. */
  record(regarding: EventReference, event: EventInput): void;
}

export interface EventRecorderOptions extends EventWriter {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly registry?: Registry;
  readonly maxPending?: number;
}

interface Pending {
  readonly tally: Tally;
  dueAt: number;
  attempts: number;
}

interface Written {
  readonly namespace: string;
  readonly name: string;
  count: number;
  updates: number;
}

const writeTimeoutMs = 10_000;
const maxAttempts = 12;
const maxWritten = 4_096;
const overall = { burst: 200, refillMs: 20 };
const flushMs = 3_000;

export function startEventRecorder(options: EventRecorderOptions): EventRecorder {
  return new WritingRecorder(options);
}

class WritingRecorder implements EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #tallies: EventTallies;
  readonly #pending = new Map<string, Pending>();
  readonly #written = new Map<string, Written>();
  readonly #counted: (result: "written" | "dropped") => void;
  readonly #abort = new AbortController();
  readonly #rate: TokenBucket;
  #timer: { readonly at: number; readonly cancel: () => void } | undefined;
  #writing: Promise<void> | undefined;
  #closing = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#tallies = new EventTallies(this.#clock);
    this.#counted = eventCounter(options.registry);
    this.#rate = new TokenBucket(overall, this.#clock.now());
  }

  record(regarding: EventReference, event: EventInput): void {
    try {
      if (this.#closing) return;
      const tally = this.#tallies.count(regarding, event);
      if (!tally) this.#counted("dropped");
      else this.#enqueue(tally);
    } catch (error) {
      // An event that cannot even be counted is a bug in its caller, but never the caller's problem.
      this.#options.log.warn({ error: getErrorMessage(error) }, "event could not be recorded");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    const now = this.#clock.now();
    for (const pending of this.#pending.values()) pending.dueAt = Math.min(pending.dueAt, now);
    if (this.#pending.size > 0) this.#wakeAt(now);
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.schedule(flushMs, late.resolve);
    await Promise.race([this.#writing ?? Promise.resolve(), late.promise]);
    cancel();
    this.#timer?.cancel();
    this.#abort.abort();
    await this.#writing;
  }

  #enqueue(tally: Tally): void {
    if (this.#pending.has(tally.key)) return; // the count goes out with the write that waits already
    const { maxPending = 4_096 } = this.#options;
    if (this.#pending.size >= maxPending) {
      this.#counted("dropped");
      if (!this.#written.has(tally.key)) this.#tallies.forget(tally);
      return;
    }
    const updates = tally.count === 1 ? undefined : this.#written.get(tally.key)?.updates;
    // Closing does not wait for the next turn of a repetition.
    const waitMs =
      updates === undefined || this.#closing
        ? 0
        : backoffMs(updates, { baseMs: 1_000, maxMs: 300_000, jitter: 0.2 });
    const dueAt = this.#clock.now() + waitMs;
    this.#pending.set(tally.key, { tally, dueAt, attempts: 0 });
    this.#wakeAt(dueAt);
  }

  /** Sees to it that the worker looks at that time. While it works it looks by itself. */
  #wakeAt(at: number): void {
    if (this.#writing || (this.#timer && this.#timer.at <= at)) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const waitMs = at - this.#clock.now();
    if (waitMs > 0) this.#timer = { at, cancel: this.#clock.schedule(waitMs, () => this.#work()) };
    else this.#work();
  }

  #work(): void {
    this.#timer = undefined;
    this.#writing = this.#writeDue().then((nextAt) => {
      this.#writing = undefined;
      if (nextAt < Infinity && !this.#abort.signal.aborted) this.#wakeAt(nextAt);
    });
  }

  async #writeDue(): Promise<number> {
    await Promise.resolve(); // not in the turn of the caller
    while (!this.#abort.signal.aborted) {
      const now = this.#clock.now();
      const next = earliest(this.#pending.values(), now);
      if (!next || next.dueAt > now) return next?.dueAt ?? Infinity;
      const paceMs = this.#closing ? 0 : this.#rate.take(now);
      if (paceMs > 0) return now + paceMs;
      await this.#write(next);
    }
    return Infinity;
  }

  async #write(pending: Pending): Promise<void> {
    const { tally } = pending;
    const { count } = tally;
    try {
      await this.#send(tally);
      this.#counted("written");
      this.#pending.delete(tally.key);
      if (tally.count > count) this.#enqueue(tally); // it happened again while this was on its way
    } catch (error) {
      this.#failed(pending, error);
    }
  }

  async #send(tally: Tally): Promise<void> {
    const known = this.#written.get(tally.key);
    const limits = { signal: this.#abort.signal, timeoutMs: writeTimeoutMs };
    if (known && tally.count > 1) {
      const { namespace, name } = known;
      const body = { ...repetition(tally), message: tally.event.message };
      await this.#options.client.patch(
        coreEvents,
        { key: { namespace, name }, patch: { type: "merge", body } },
        limits,
      );
      known.count = tally.count;
      known.updates += 1;
      return;
    }
    const event = eventObject(tally.regarding, tally.event, { ...this.#options, seen: tally });
    this.#remember(tally.key, await this.#options.client.create(coreEvents, event, limits));
  }

  #remember(key: string, { metadata, count = 1 }: CoreEvent): void {
    const { namespace = "default", name = "" } = metadata;
    this.#written.delete(key);
    this.#written.set(key, { namespace, name, count, updates: 0 });
    const oldest = this.#written.keys().next().value;
    if (this.#written.size > maxWritten && oldest !== undefined) this.#written.delete(oldest);
  }

  #failed(pending: Pending, error: unknown): void {
    const { tally } = pending;
    if (this.#abort.signal.aborted) return void this.#pending.delete(tally.key);
    // The server forgot the event we count on: it becomes a new one.
    const forgotten = isFault(error, "notFound") && this.#written.delete(tally.key);
    const taken = isFault(error, "alreadyExists");
    const fault = toFault(error);
    pending.attempts += 1;
    if (pending.attempts < maxAttempts && !this.#closing && (forgotten || taken || fault.traits.retry)) {
      const backoff = { baseMs: 1_000, maxMs: 60_000 };
      pending.dueAt =
        forgotten || taken
          ? 0
          : this.#clock.now() + Math.max(backoffMs(pending.attempts, backoff), fault.retryAfterMs ?? 0);
      return;
    }
    this.#pending.delete(tally.key);
    this.#written.delete(tally.key);
    this.#tallies.forget(tally);
    this.#counted("dropped");
    const fields = { reason: tally.event.reason, code: fault.code, error: getErrorMessage(fault) };
    this.#options.log.warn(fields, "event could not be written");
  }
}

function earliest(waiting: Iterable<Pending>, now: number): Pending | undefined {
  let first: Pending | undefined;
  for (const each of waiting) {
    if (each.dueAt <= now) return each;
    if (!first || each.dueAt < first.dueAt) first = each;
  }
  return first;
}

export function eventCounter(registry: Registry | undefined): (result: "written" | "dropped") => void {
  if (!registry) return () => undefined;
  const counter = openMetric(registry, Counter, {
    name: "kube_events_total",
    help: "Events by what became of them; a repetition that was merged into another write does not count.",
    labelNames: ["result"],
  });
  for (const result of ["written", "dropped"]) counter.inc({ result }, 0);
  return (result) => counter.inc({ result });
}
