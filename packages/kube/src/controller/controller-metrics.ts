/**
 * Metrics of controllers and their queues, under the names that dashboards for Go controllers know. One set of
 * metrics per registry, shared by all its controllers, told apart by the label `controller`.
 */
import { Counter, Gauge, Histogram, type FaultCode, type Registry } from "@cocoon/core";
import type { WorkQueueObserver, WorkQueueStats } from "./work-queue.ts";

type ReconcileResult = "success" | "requeue_after" | "requeue" | "error";

interface FailureTraits {
  readonly code: FaultCode;
  readonly terminal: boolean;
  readonly timedOut: boolean;
}

/** What one controller reports. */
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

const gauges: Readonly<Record<string, { readonly help: string; readonly read: ReadGauge }>> = {
  controller_runtime_max_concurrent_reconciles: {
    help: "How many reconciles may run at once.",
    read: (state) => state.concurrency,
  },
  controller_runtime_active_workers: {
    help: "How many reconciles run now.",
    read: (state) => state.stats().running,
  },
  workqueue_depth: {
    help: "Keys that are ready and wait for a worker.",
    read: (state) => state.stats().ready,
  },
  workqueue_delayed: {
    help: "Keys that wait for their time: requeued or backing off.",
    read: (state) => state.stats().delayed,
  },
  workqueue_unfinished_work_seconds: {
    help: "Time spent so far, over all reconciles that run now.",
    read: (state) => state.stats().unfinishedMs / 1_000,
  },
  workqueue_longest_running_processor_seconds: {
    help: "Time the longest running reconcile runs.",
    read: (state) => state.stats().longestRunningMs / 1_000,
  },
};

interface SharedMetrics {
  readonly states: Set<ControllerState>;
  readonly counters: Readonly<Record<string, Counter>>;
  readonly histograms: Readonly<Record<string, Histogram>>;
}

const known = new WeakMap<Registry, SharedMetrics>();

export function controllerMetrics(registry: Registry, state: ControllerState): ControllerMetrics {
  const shared = known.get(registry) ?? createMetrics(registry);
  known.set(registry, shared);
  shared.states.add(state);
  const controller = { controller: state.name };
  const queue = { name: state.name, controller: state.name };
  const { counters, histograms } = shared;
  // The series exist from the start, so that a rate over them sees the first increment.
  for (const result of ["success", "requeue_after", "requeue", "error"] satisfies ReconcileResult[])
    counters["reconciles"]?.inc({ ...controller, result }, 0);
  for (const name of ["errors", "terminal", "timeouts"]) counters[name]?.inc(controller, 0);
  for (const name of ["adds", "retries", "refused"]) counters[name]?.inc(queue, 0);
  return {
    queue: {
      added: () => counters["adds"]?.inc(queue),
      retried: () => counters["retries"]?.inc(queue),
      refused: () => counters["refused"]?.inc(queue),
      taken: (ms) => histograms["queued"]?.observe(queue, ms / 1_000),
      finished: (ms) => histograms["worked"]?.observe(queue, ms / 1_000),
    },
    reconciled: (result, tookMs) => {
      counters["reconciles"]?.inc({ ...controller, result });
      histograms["reconcile"]?.observe(controller, tookMs / 1_000);
    },
    failed: ({ code, terminal, timedOut }) => {
      counters["errors"]?.inc(controller);
      counters["faults"]?.inc({ ...controller, code });
      if (terminal) counters["terminal"]?.inc(controller);
      if (timedOut) counters["timeouts"]?.inc(controller);
    },
    [Symbol.dispose]: () => void shared.states.delete(state),
  };
}

function createMetrics(registry: Registry): SharedMetrics {
  const states = new Set<ControllerState>();
  for (const [name, { help, read }] of Object.entries(gauges))
    createGauge(registry, { name, help, read, states });
  createFailingGauge(registry, states);
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] });
  const histogram = (name: string, help: string, labelNames: string[]) =>
    new Histogram({
      name,
      help,
      labelNames,
      buckets: name.startsWith("workqueue") ? queueBuckets : reconcileBuckets,
      registers: [registry],
    });
  const runtime = "controller_runtime";
  return {
    states,
    counters: {
      reconciles: counter(`${runtime}_reconcile_total`, "Reconciles by result.", ["controller", "result"]),
      errors: counter(`${runtime}_reconcile_errors_total`, "Reconciles that failed.", ["controller"]),
      faults: counter("controller_faults_total", "Reconciles that failed, by the code of their fault.", [
        "controller",
        "code",
      ]),
      terminal: counter(
        `${runtime}_terminal_reconcile_errors_total`,
        "Reconciles that failed with a fault that trying again does not mend.",
        ["controller"],
      ),
      timeouts: counter(
        `${runtime}_reconcile_timeouts_total`,
        "Reconciles that were aborted because they took too long.",
        ["controller"],
      ),
      adds: counter("workqueue_adds_total", "Keys put in line.", ["name", "controller"]),
      retries: counter("workqueue_retries_total", "Keys put back after a failure.", ["name", "controller"]),
      refused: counter("workqueue_refused_total", "Keys refused because the queue was full.", [
        "name",
        "controller",
      ]),
    },
    histograms: {
      reconcile: histogram(`${runtime}_reconcile_time_seconds`, "Duration of reconciles.", ["controller"]),
      queued: histogram("workqueue_queue_duration_seconds", "Time from ready to taken.", [
        "name",
        "controller",
      ]),
      worked: histogram("workqueue_work_duration_seconds", "Time from taken to done.", [
        "name",
        "controller",
      ]),
    },
  };
}

interface GaugeSpec {
  readonly name: string;
  readonly help: string;
  readonly read: ReadGauge;
  readonly states: ReadonlySet<ControllerState>;
}

function createGauge(registry: Registry, { name, help, read, states }: GaugeSpec): void {
  const ofQueue = name.startsWith("workqueue");
  const gauge = new Gauge({
    name,
    help,
    labelNames: ofQueue ? ["name", "controller"] : ["controller"],
    registers: [],
    collect() {
      this.reset();
      for (const state of states) this.set(labelsOf(state, ofQueue), read(state));
    },
  });
  registry.registerMetric(gauge);
}

function labelsOf(state: ControllerState, ofQueue: boolean): Record<string, string> {
  return ofQueue ? { name: state.name, controller: state.name } : { controller: state.name };
}

function createFailingGauge(registry: Registry, states: ReadonlySet<ControllerState>): void {
  const gauge = new Gauge({
    name: "controller_failing_objects",
    help: "Objects whose last reconcile failed, by whether trying again is expected to help.",
    labelNames: ["controller", "retry"],
    registers: [],
    collect() {
      this.reset();
      for (const state of states) {
        const { retrying, terminal } = state.failing();
        this.set({ controller: state.name, retry: "true" }, retrying);
        this.set({ controller: state.name, retry: "false" }, terminal);
      }
    },
  });
  registry.registerMetric(gauge);
}
