/** Metrics of controllers and queues under the names that dashboards for Go controllers know; one set per registry. */
import { Counter, Gauge, Histogram, openMetric, type FaultCode, type Registry } from "@cocoon/core";
import type { WorkQueueObserver, WorkQueueStats } from "./work-queue.ts";

type ReconcileResult = "success" | "requeue_after" | "requeue" | "error";

interface FailureTraits {
  readonly code: FaultCode;
  readonly terminal: boolean;
  readonly timedOut: boolean;
}

export interface ControllerMetrics extends Disposable {
  readonly queue: WorkQueueObserver;
  reconciled(result: ReconcileResult, tookMs: number): void;
  failed(traits: FailureTraits): void;
}

export interface ControllerState {
  readonly name: string;
  readonly concurrency: number;
  stats(): WorkQueueStats;
  failing(): { readonly retrying: number; readonly terminal: number };
}

const reconcileBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const queueBuckets = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1_000];

type ReadGauge = (state: ControllerState) => number;

const gauges: readonly (readonly [name: string, help: string, read: ReadGauge])[] = [
  [
    "controller_runtime_max_concurrent_reconciles",
    "How many reconciles may run at once.",
    (s) => s.concurrency,
  ],
  ["controller_runtime_active_workers", "How many reconciles run now.", (s) => s.stats().running],
  ["workqueue_depth", "Keys that are ready and wait for a worker.", (s) => s.stats().ready],
  ["workqueue_delayed", "Keys that are requeued or backing off.", (s) => s.stats().delayed],
  [
    "workqueue_unfinished_work_seconds",
    "Time spent so far, over all reconciles that run now.",
    (s) => s.stats().unfinishedMs / 1_000,
  ],
  [
    "workqueue_longest_running_processor_seconds",
    "Time the longest running reconcile runs.",
    (s) => s.stats().longestRunningMs / 1_000,
  ],
];

const ofController = ["controller"];
const ofQueue = ["name", "controller"];

/** The controllers of each registry, for the gauges, which are read at each scrape. */
const known = new WeakMap<Registry, Set<ControllerState>>();

export function controllerMetrics(registry: Registry, state: ControllerState): ControllerMetrics {
  const states = known.get(registry) ?? createGauges(registry);
  known.set(registry, states.add(state));
  const controller = { controller: state.name };
  const queue = { name: state.name, controller: state.name };
  const { reconciles, errors, faults, terminal: permanent, timeouts } = openReconcileCounters(registry);
  const { adds, retries, refused, queued, worked, reconcile } = openQueueMetrics(registry);
  // The series exist from the start, so that a rate over them sees the first increment.
  for (const result of ["success", "requeue_after", "requeue", "error"] satisfies ReconcileResult[])
    reconciles.inc({ ...controller, result }, 0);
  for (const counter of [errors, permanent, timeouts]) counter.inc(controller, 0);
  for (const counter of [adds, retries, refused]) counter.inc(queue, 0);
  return {
    queue: {
      added: () => adds.inc(queue),
      retried: () => retries.inc(queue),
      refused: () => refused.inc(queue),
      taken: (ms) => queued.observe(queue, ms / 1_000),
      finished: (ms) => worked.observe(queue, ms / 1_000),
    },
    reconciled: (result, tookMs) => {
      reconciles.inc({ ...controller, result });
      reconcile.observe(controller, tookMs / 1_000);
    },
    failed: ({ code, terminal, timedOut }) => {
      errors.inc(controller);
      faults.inc({ ...controller, code });
      if (terminal) permanent.inc(controller);
      if (timedOut) timeouts.inc(controller);
    },
    [Symbol.dispose]: () => void states.delete(state),
  };
}

function openReconcileCounters(registry: Registry) {
  const open = (name: string, help: string, labelNames: string[]) =>
    openMetric(registry, Counter, { name: `controller_${name}_total`, help, labelNames });
  return {
    reconciles: open("runtime_reconcile", "Reconciles by result.", ["controller", "result"]),
    errors: open("runtime_reconcile_errors", "Reconciles that failed.", ofController),
    faults: open("faults", "Reconciles that failed, by fault code.", ["controller", "code"]),
    terminal: open(
      "runtime_terminal_reconcile_errors",
      "Reconciles that failed with a fault that a retry does not mend.",
      ofController,
    ),
    timeouts: open(
      "runtime_reconcile_timeouts",
      "Reconciles that were aborted because they took too long.",
      ofController,
    ),
  };
}

function openQueueMetrics(registry: Registry) {
  const count = (name: string, help: string) =>
    openMetric(registry, Counter, { name: `workqueue_${name}_total`, help, labelNames: ofQueue });
  const time = (name: string, help: string) =>
    openMetric(registry, Histogram, { name, help, labelNames: ofQueue, buckets: queueBuckets });
  return {
    adds: count("adds", "Keys put in line."),
    retries: count("retries", "Keys put back after a failure."),
    refused: count("refused", "Keys refused because the queue was full."),
    queued: time("workqueue_queue_duration_seconds", "Time from ready to taken."),
    worked: time("workqueue_work_duration_seconds", "Time from taken to done."),
    reconcile: openMetric(registry, Histogram, {
      name: "controller_runtime_reconcile_time_seconds",
      help: "Duration of reconciles.",
      labelNames: ofController,
      buckets: reconcileBuckets,
    }),
  };
}

function createGauges(registry: Registry): Set<ControllerState> {
  const states = new Set<ControllerState>();
  const registers = [registry];
  for (const [name, help, read] of gauges) {
    const isOfQueue = name.startsWith("workqueue");
    const gauge = new Gauge({
      name,
      help,
      labelNames: isOfQueue ? ofQueue : ofController,
      registers,
      collect() {
        gauge.reset();
        for (const state of states) {
          const labels = { ...(isOfQueue ? { name: state.name } : {}), controller: state.name };
          gauge.set(labels, read(state));
        }
      },
    });
  }
  const failing = new Gauge({
    name: "controller_failing_objects",
    help: "Objects whose last reconcile failed, by whether trying again is expected to help.",
    labelNames: ["controller", "retry"],
    registers,
    collect() {
      failing.reset();
      for (const state of states) {
        const { retrying, terminal } = state.failing();
        failing.set({ controller: state.name, retry: "true" }, retrying);
        failing.set({ controller: state.name, retry: "false" }, terminal);
      }
    },
  });
  return states;
}
