/**
 * The work queue of a controller: which key is reconciled next.
 *
 *            add            tryTake             done
 *   idle ───────────▶ ready ───────▶ running ───────────▶ idle
 *    │ addAfter, retry  ▲                │ added again ──▶ ready (at the end of the line)
 *    └──▶ delayed ──────┘ time is up     └ retry ────────▶ delayed
 *
 * - A key is there once and is never handed out while it runs; the earliest of several requests wins.
 * - First come, first served. Background keys (resync, first list) let the others pass, but get every fifth turn.
 * - A failing key is delayed exponentially. Changes call it back early, but not before `failingFloorMs`.
 * - Not more than `maxKeys` keys; the owner of a refused key is informed so that it can requeue.
 */
import { backoffMs, systemClock, type Clock } from "@cocoon/core";
import TinyQueue from "tinyqueue";
import { Fifo } from "./fifo.ts";

export type Lane = "normal" | "background";

export interface WorkQueueOptions {
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly maxKeys?: number;
  readonly backoffBaseMs?: number;
  readonly backoffMaxMs?: number;
  /** Delay after a failure that a retry is not expected to mend; default `backoffMaxMs`. */
  readonly terminalBackoffMs?: number;
  readonly jitter?: number;
  /** How long changes wait at most for a key that failed just now. */
  readonly failingFloorMs?: number;
  readonly observer?: WorkQueueObserver;
  readonly onReady?: () => void;
}

export interface WorkQueueObserver {
  added?(): void;
  refused?(): void;
  retried?(): void;
  taken?(queuedMs: number): void;
  finished?(workMs: number): void;
}

export interface WorkQueueStats {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  readonly longestRunningMs: number;
  readonly unfinishedMs: number;
}

interface Entry {
  readonly key: string;
  lane: Lane | undefined;
  dueAt: number | undefined;
  /** Distinguishes the newest place in a line or heap from outdated ones. */
  ticket: number;
  runningSince: number | undefined;
  again: Lane | undefined;
  failures: number;
  notBefore: number;
  queuedAt: number;
}

interface Place {
  readonly key: string;
  readonly ticket: number;
}

interface Delay extends Place {
  readonly at: number;
}

function compareDelays(one: Delay, other: Delay): number {
  return one.at - other.at || one.ticket - other.ticket;
}

/** One turn in five is for the background when it has something. */
const turnsBeforeBackground = 4;

const defaults = {
  clock: systemClock,
  random: Math.random,
  maxKeys: 200_000,
  backoffBaseMs: 5,
  backoffMaxMs: 300_000,
  terminalBackoffMs: undefined as number | undefined,
  jitter: 0.3,
  failingFloorMs: 1_000,
  observer: {} as WorkQueueObserver,
  onReady: (): void => undefined,
};

export class WorkQueue implements Disposable {
  readonly #options: typeof defaults;
  readonly #entries = new Map<string, Entry>();
  readonly #running = new Set<Entry>();
  readonly #lanes: Readonly<Record<Lane, Fifo<Place>>> = { normal: new Fifo(), background: new Fifo() };
  /** Earliest first; outdated places are dropped lazily. */
  #heap = new TinyQueue<Delay>([], compareDelays);
  #ready = 0;
  #delayed = 0;
  #turns = 0;
  #tickets = 0;
  #closed = false;
  #timer: { readonly at: number; readonly cancel: () => void } | undefined;

  constructor(options: WorkQueueOptions = {}) {
    this.#options = { ...defaults, ...options };
  }

  /** Requests a reconcile of the key now. False when the queue is full or closed: nothing was noted. */
  add(key: string, lane: Lane = "normal"): boolean {
    const entry = this.#entry(key);
    if (!entry) return false;
    const waitMs = entry.notBefore - this.#options.clock.now();
    if (waitMs > 0 && entry.lane === undefined) return this.#delay(entry, waitMs);
    if (entry.runningSince !== undefined) this.#markAgain(entry, lane);
    else this.#enqueue(entry, lane);
    return true;
  }

  /** Requests a reconcile after a delay; an earlier request for the same key stands. */
  addAfter(key: string, ms: number): boolean {
    if (!(ms > 0)) return this.add(key);
    const entry = this.#entry(key);
    return entry ? this.#delay(entry, Math.max(ms, entry.notBefore - this.#options.clock.now())) : false;
  }

  /** Counts a failure and requeues after the back-off, with `longest` at the longest delay. Returns the delay. */
  retry(key: string, options: { readonly longest?: boolean; readonly atLeastMs?: number } = {}): number {
    const entry = this.#entries.get(key);
    if (entry?.runningSince === undefined) return 0;
    const { backoffBaseMs, backoffMaxMs, terminalBackoffMs, jitter, random, clock, failingFloorMs } =
      this.#options;
    const maxMs = options.longest ? (terminalBackoffMs ?? backoffMaxMs) : backoffMaxMs;
    const backoff = { baseMs: options.longest ? maxMs : backoffBaseMs, maxMs, jitter, random };
    const delayMs = Math.max(backoffMs(entry.failures, backoff), options.atLeastMs ?? 0);
    entry.failures += 1;
    const floorMs = Math.max(Math.min(delayMs, failingFloorMs), options.atLeastMs ?? 0);
    entry.notBefore = clock.now() + floorMs;
    // A request made while it ran is kept, but does not overtake the floor.
    const requestedMs = entry.again === undefined ? (entry.dueAt ?? Infinity) - clock.now() : 0;
    entry.again = undefined;
    this.#clearDue(entry);
    this.#options.observer.retried?.();
    const nextMs = Math.min(delayMs, Math.max(requestedMs, floorMs));
    this.#delay(entry, nextMs);
    return nextMs;
  }

  /** The key is well again: its next failure starts with the shortest delay. */
  forget(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    entry.failures = 0;
    entry.notBefore = 0;
  }

  getFailures(key: string): number {
    return this.#entries.get(key)?.failures ?? 0;
  }

  /** The next key, which then runs until `done`; undefined when none is ready. */
  tryTake(): string | undefined {
    if (this.#closed || this.#ready === 0) return undefined;
    const entry = this.#next();
    if (!entry) return undefined;
    const now = this.#options.clock.now();
    this.#ready -= 1;
    if (this.#ready === 0) for (const lane of Object.values(this.#lanes)) lane.clear();
    entry.lane = undefined;
    entry.runningSince = now;
    this.#running.add(entry);
    this.#options.observer.taken?.(now - entry.queuedAt);
    return entry.key;
  }

  done(key: string): void {
    const entry = this.#entries.get(key);
    if (entry?.runningSince === undefined) return;
    this.#options.observer.finished?.(this.#options.clock.now() - entry.runningSince);
    entry.runningSince = undefined;
    this.#running.delete(entry);
    const again = entry.again;
    entry.again = undefined;
    if (again) this.#enqueue(entry, again);
    else if (entry.dueAt === undefined) this.#entries.delete(key);
  }

  stats(): WorkQueueStats {
    const now = this.#options.clock.now();
    const runningMs = [...this.#running].map((entry) => now - (entry.runningSince ?? now));
    return {
      ready: this.#ready,
      delayed: this.#delayed,
      running: this.#running.size,
      longestRunningMs: Math.max(0, ...runningMs),
      unfinishedMs: runningMs.reduce((sum, ms) => sum + ms, 0),
    };
  }

  /** Places held in memory, outdated ones included: for the test that the queue shrinks. */
  get footprint(): number {
    return this.#entries.size + this.#heap.length + this.#lanes.normal.size + this.#lanes.background.size;
  }

  /** Nothing is accepted or handed out any more; `done` still works. */
  [Symbol.dispose](): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #entry(key: string): Entry | undefined {
    if (this.#closed) return undefined;
    const known = this.#entries.get(key);
    if (known) return known;
    if (this.#entries.size >= this.#options.maxKeys) {
      this.#options.observer.refused?.();
      return undefined;
    }
    const entry: Entry = {
      key,
      lane: undefined,
      dueAt: undefined,
      ticket: 0,
      runningSince: undefined,
      again: undefined,
      failures: 0,
      notBefore: 0,
      queuedAt: 0,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  #markAgain(entry: Entry, lane: Lane): void {
    if (entry.again === undefined) this.#options.observer.added?.();
    entry.again = entry.again === "normal" ? "normal" : lane;
    this.#clearDue(entry);
  }

  #enqueue(entry: Entry, lane: Lane): void {
    if (entry.lane === "normal" || entry.lane === lane) return;
    if (entry.lane === undefined) {
      this.#ready += 1;
      entry.queuedAt = this.#options.clock.now();
      this.#options.observer.added?.();
    }
    this.#clearDue(entry);
    entry.lane = lane;
    entry.ticket = this.#tickets += 1;
    this.#lanes[lane].push({ key: entry.key, ticket: entry.ticket });
    this.#options.onReady();
  }

  #delay(entry: Entry, ms: number): true {
    const at = this.#options.clock.now() + ms;
    const sooner = entry.lane !== undefined || entry.again !== undefined || (entry.dueAt ?? Infinity) <= at;
    if (sooner) return true;
    if (entry.dueAt === undefined) this.#delayed += 1;
    entry.dueAt = at;
    entry.ticket = this.#tickets += 1;
    this.#heap.push({ at, key: entry.key, ticket: entry.ticket });
    this.#compact();
    this.#arm();
    return true;
  }

  #clearDue(entry: Entry): void {
    if (entry.dueAt === undefined) return;
    entry.dueAt = undefined;
    this.#delayed -= 1;
    this.#compact();
  }

  /** Outdated requests must not pile up until they are due. */
  #compact(): void {
    if (this.#heap.length > (this.#delayed === 0 ? 0 : 2 * this.#delayed + 64))
      this.#heap = new TinyQueue(
        this.#heap.data.filter((delay) => this.#isLive(delay)),
        compareDelays,
      );
  }

  #isLive(node: Place): boolean {
    const entry = this.#entries.get(node.key);
    return entry?.ticket === node.ticket && entry.dueAt !== undefined;
  }

  #arm(): void {
    const at = this.#heap.peek()?.at;
    if (at === undefined || (this.#timer && this.#timer.at <= at)) return;
    this.#timer?.cancel();
    const cancel = this.#options.clock.schedule(at - this.#options.clock.now(), () => this.#promoteDue());
    this.#timer = { at, cancel };
  }

  #promoteDue(): void {
    this.#timer = undefined;
    const now = this.#options.clock.now();
    for (let node = this.#heap.peek(); node && node.at <= now; node = this.#heap.peek()) {
      this.#heap.pop();
      const entry = this.#entries.get(node.key);
      if (!entry || !this.#isLive(node)) continue;
      if (entry.runningSince === undefined) this.#enqueue(entry, "normal");
      else this.#markAgain(entry, "normal");
    }
    this.#arm();
  }

  #next(): Entry | undefined {
    const background = this.#turns >= turnsBeforeBackground;
    const order: readonly Lane[] = background ? ["background", "normal"] : ["normal", "background"];
    for (const lane of order) {
      const entry = this.#shift(lane);
      if (!entry) continue;
      this.#turns = lane === "background" ? 0 : this.#turns + 1;
      return entry;
    }
    return undefined;
  }

  #shift(lane: Lane): Entry | undefined {
    for (let place = this.#lanes[lane].shift(); place; place = this.#lanes[lane].shift()) {
      const entry = this.#entries.get(place.key);
      if (entry?.lane === lane && entry.ticket === place.ticket) return entry;
    }
    return undefined;
  }
}
