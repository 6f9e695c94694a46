/**
 * A controller: watch → queue → reconcile(key) → settled, requeued, or failed with back-off.
 *
 * - No reconcile starts before every watched source has its first list, and one key never runs twice at once.
 * - A fault with `retry: false` waits the longest delay; any change of the object calls it back.
 * - `signal` aborts running reconciles at once: give it the leadership's. `stop` lets them finish first.
 */
import { randomUUID } from "node:crypto";
import {
  Fault,
  isFault,
  getErrorMessage,
  systemClock,
  toFault,
  type Clock,
  type Logger,
  type Registry,
} from "@cocoon/core";
import { keyText, parseKey, type ObjectKey } from "../object.ts";
import { controllerMetrics, type ControllerMetrics } from "./controller-metrics.ts";
import { FailureLog, type ReconcileFailure } from "./failure-log.ts";
import type { Outcome } from "./reconcile-run.ts";
import { OverflowRecovery } from "./overflow-recovery.ts";
import { ReconcileRun } from "./reconcile-run.ts";
import type { Watch } from "./watches.ts";
import { WorkQueue, type WorkQueueOptions } from "./work-queue.ts";

export interface ReconcileContext {
  /** Aborts at the deadline of this reconcile, and when the controller has to stop at once. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly failures: number;
}

type Reconcile = (key: ObjectKey, context: ReconcileContext) => Promise<Outcome>;

export interface ControllerOptions {
  readonly name: string;
  readonly watches: readonly Watch[];
  readonly reconcile: Reconcile;
  readonly log: Logger;
  /** Ends everything at once when it aborts, such as lost leadership. */
  readonly signal: AbortSignal;
  readonly concurrency?: number;
  /** A reconcile that takes longer is aborted and counts as failed. */
  readonly maxReconcileMs?: number;
  /** Every object is looked at again this often, from the cache; 0 is never. */
  readonly resyncMs?: number;
  readonly clock?: Clock;
  readonly registry?: Registry;
  readonly queue?: Omit<WorkQueueOptions, "clock" | "observer" | "onReady">;
  /** Called after each failure: the place for events and conditions. Must not throw. */
  readonly onFailure?: (failure: ReconcileFailure) => void;
}

export interface Controller extends AsyncDisposable {
  /** Resolves when every source is synced and reconciles may start; rejects when it was stopped before. */
  readonly ready: Promise<void>;
  /** Requests a reconcile for a reason that no watch sees. */
  enqueue(key: ObjectKey, options?: { readonly afterMs?: number }): void;
  failing(): readonly ReconcileFailure[];
  /** Takes no new work and waits for what runs; aborts it after the grace period. May be called repeatedly. */
  stop(options?: { readonly graceMs?: number }): Promise<void>;
}

const defaultMaxReconcileMs = 5 * 60_000;
const defaultGraceMs = 20_000;
const abortedGraceMs = 10_000;

export function startController(options: ControllerOptions): Controller {
  const controller = new RunningController(options);
  controller.start();
  return controller;
}

class RunningController implements Controller {
  readonly #options: ControllerOptions;
  readonly #clock: Clock;
  readonly #queue: WorkQueue;
  readonly #metrics: ControllerMetrics | undefined;
  readonly #running = new Map<string, ReconcileRun>();
  readonly #failures = new FailureLog();
  readonly #closing = new AbortController();
  readonly #ready = Promise.withResolvers<void>();
  readonly ready = this.#ready.promise;
  readonly #parts = new DisposableStack();
  readonly #overflow: OverflowRecovery;
  #cancelResync: (() => void) | undefined;
  #synced = false;
  #pumping = false;
  #stopped: Promise<void> | undefined;

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#metrics = options.registry && this.#openMetrics(options.registry);
    this.#queue = new WorkQueue({
      ...options.queue,
      clock: this.#clock,
      observer: this.#metrics?.queue ?? {},
      onReady: () => this.#pump(),
    });
    this.#overflow = new OverflowRecovery({
      clock: this.#clock,
      allKeys: () => this.#listKeys(options.watches),
      add: (key) => this.#queue.add(key, "background"),
    });
  }

  start(): void {
    const { signal, watches } = this.#options;
    const abort = () => void this.stop({ graceMs: 0 }).catch(this.#reportStuck);
    signal.addEventListener("abort", abort, { once: true });
    this.#parts.defer(() => signal.removeEventListener("abort", abort));
    for (const watch of watches) this.#parts.use(this.#subscribe(watch));
    this.#open().then(this.#ready.resolve, this.#ready.reject);
    this.ready.catch(() => undefined); // awaiting it is optional
    if (signal.aborted) abort();
  }

  enqueue(key: ObjectKey, { afterMs = 0 }: { readonly afterMs?: number } = {}): void {
    this.#noteRefusal(this.#queue.addAfter(keyText(key), afterMs));
  }

  failing(): readonly ReconcileFailure[] {
    return this.#failures.list();
  }

  stop({ graceMs = defaultGraceMs }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#stopped ??= this.#stop(graceMs);
    // At once means in this turn; a later call may still shorten the grace of an earlier one.
    if (graceMs <= 0) this.#abortRunning();
    return this.#stopped;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #openMetrics(registry: Registry): ControllerMetrics {
    return this.#parts.use(
      controllerMetrics(registry, {
        name: this.#options.name,
        concurrency: this.#concurrency,
        stats: () => this.#queue.stats(),
        failing: () => this.#failures.counts(),
      }),
    );
  }

  get #concurrency(): number {
    return Math.max(1, this.#options.concurrency ?? 1);
  }

  #subscribe(watch: Watch): Disposable {
    return watch.subscribe({
      enqueue: (key, { initial }) =>
        this.#noteRefusal(this.#queue.add(keyText(key), initial ? "background" : "normal")),
      failed: (error) =>
        this.#options.log.error(
          { controller: this.#options.name, err: toFault(error) },
          "watch filter failed",
        ),
    });
  }

  async #open(): Promise<void> {
    const { signal } = this.#closing;
    await Promise.all(this.#options.watches.map((watch) => watch.synced({ signal })));
    if (signal.aborted) throw new Fault("unavailable", `controller ${this.#options.name} was stopped`);
    this.#synced = true;
    this.#scheduleResync();
    this.#pump();
  }

  #scheduleResync(): void {
    const { resyncMs = 0, watches } = this.#options;
    if (!(resyncMs > 0)) return;
    this.#cancelResync = this.#clock.schedule(resyncMs, () => {
      for (const key of this.#listKeys(watches.filter((watch) => watch.primary)))
        this.#noteRefusal(this.#queue.add(key, "background"));
      this.#scheduleResync();
    });
  }

  /** Keys that are failing keep their back-off: a resync must not hammer what cannot succeed. */
  *#listKeys(watches: readonly Watch[]): Iterable<string> {
    for (const watch of watches) {
      for (const key of watch.keys()) {
        const text = keyText(key);
        if (this.#queue.getFailures(text) === 0) yield text;
      }
    }
  }

  #noteRefusal(accepted: boolean): void {
    if (accepted || this.#closing.signal.aborted) return;
    if (!this.#overflow.active)
      this.#options.log.warn(
        { controller: this.#options.name },
        "work queue is full, sources are asked again",
      );
    this.#overflow.noteRefusal();
  }

  /** Starts what fits, in a turn of its own: thousands of quick reconciles must not keep I/O waiting. */
  #pump(): void {
    if (this.#pumping || !this.#synced) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      while (this.#running.size < this.#concurrency && !this.#closing.signal.aborted) {
        const key = this.#queue.tryTake();
        if (key === undefined) return;
        this.#start(key);
      }
    });
  }

  #start(text: string): void {
    const { name, reconcile, maxReconcileMs = defaultMaxReconcileMs } = this.#options;
    const log = this.#options.log.child({ controller: name, key: text, reconcileId: randomUUID() });
    const run = new ReconcileRun({ clock: this.#clock, maxMs: maxReconcileMs, log });
    this.#running.set(text, run);
    const context = { signal: run.signal, log, failures: this.#queue.getFailures(text) };
    void run
      .execute(() => reconcile(parseKey(text), context))
      .then((result) => {
        if (result.kind === "failed") this.#failed(text, run, result.error);
        else this.#succeeded(text, run, result.outcome);
      })
      .finally(() => {
        this.#running.delete(text);
        this.#queue.done(text);
        run.end();
        this.#pump();
      });
  }

  #succeeded(text: string, run: ReconcileRun, outcome: Outcome): void {
    this.#failures.clear(text);
    if (outcome.kind === "settled") {
      this.#queue.forget(text);
      this.#metrics?.reconciled("success", run.tookMs);
    } else if (outcome.afterMs > 0) {
      this.#queue.forget(text);
      this.#queue.addAfter(text, outcome.afterMs);
      this.#metrics?.reconciled("requeue_after", run.tookMs);
    } else {
      this.#queue.retry(text); // "soon" again and again backs off
      this.#metrics?.reconciled("requeue", run.tookMs);
    }
  }

  #failed(text: string, run: ReconcileRun, error: unknown): void {
    if (this.#closing.signal.aborted && run.signal.aborted) return; // stopped: not a failure
    const fault = run.timedOut
      ? new Fault("timeout", `reconcile took longer than ${run.maxMs} ms: ${getErrorMessage(error)}`, {
          cause: error,
        })
      : toFault(error);
    const terminal = !fault.traits.retry;
    const retryInMs = this.#queue.retry(text, { longest: terminal, atLeastMs: fault.retryAfterMs ?? 0 });
    const failures = this.#queue.getFailures(text);
    const failure = { key: parseKey(text), fault, terminal, failures, retryInMs };
    this.#failures.note(text, failure);
    this.#metrics?.reconciled("error", run.tookMs);
    this.#metrics?.failed({ code: fault.code, terminal, timedOut: run.timedOut });
    this.#logFailure(run, failure, isFault(error));
    try {
      this.#options.onFailure?.(failure);
    } catch (hookError) {
      run.log.error({ err: toFault(hookError) }, "failure hook failed");
    }
  }

  #logFailure(run: ReconcileRun, failure: ReconcileFailure, expected: boolean): void {
    const { fault, failures, retryInMs, terminal } = failure;
    const fields = {
      code: fault.code,
      failures,
      retryInMs: Math.round(retryInMs),
      tookMs: Math.round(run.tookMs),
    };
    if (!expected && !run.timedOut) run.log.error({ ...fields, err: fault }, "reconcile failed unexpectedly");
    else if (terminal)
      run.log.error({ ...fields, error: getErrorMessage(fault) }, "reconcile failed permanently");
    else if (fault.code === "conflict")
      run.log.debug({ ...fields, error: getErrorMessage(fault) }, "reconcile conflicted");
    else run.log.warn({ ...fields, error: getErrorMessage(fault) }, "reconcile failed");
  }

  async #stop(graceMs: number): Promise<void> {
    this.#closing.abort(new Fault("unavailable", `controller ${this.#options.name} stops`));
    this.#parts.dispose();
    this.#cancelResync?.();
    this.#overflow[Symbol.dispose]();
    this.#queue[Symbol.dispose]();
    if (await this.#idleWithin(graceMs)) return;
    this.#abortRunning();
    if (await this.#idleWithin(abortedGraceMs)) return;
    const keys = [...this.#running.keys()].slice(0, 10).join(", ");
    throw new Fault("timeout", `controller ${this.#options.name}: reconciles do not end: ${keys}`);
  }

  #abortRunning(): void {
    const reason = new Fault("unavailable", `controller ${this.#options.name} stops`);
    for (const run of this.#running.values()) run.abort(reason);
  }

  readonly #reportStuck = (error: unknown): void => {
    this.#options.log.error(
      { controller: this.#options.name, error: getErrorMessage(error) },
      "controller is stuck",
    );
  };

  async #idleWithin(ms: number): Promise<boolean> {
    if (this.#running.size === 0) return true;
    if (ms <= 0) return false;
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.schedule(ms, late.resolve);
    await Promise.race([Promise.all([...this.#running.values()].map((run) => run.ended)), late.promise]);
    cancel();
    return this.#running.size === 0;
  }
}
