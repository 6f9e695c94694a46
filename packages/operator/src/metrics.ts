/** Metrics of the operator under their documented names. */
import { MetricFactory, type Counter, type Histogram, type Registry } from "@cocoon/core";

export interface OperatorMetrics {
  readonly subAgentRebuild: Counter;
  readonly subAgentDeadLetter: Counter;
  readonly hibernateSeconds: Histogram;
  readonly wakeSeconds: Histogram;
  readonly lifecycleFailed: Counter;
  readonly slotsReleased: Counter;
  readonly slotWakes: Counter;
  readonly slotWakeUnschedulable: Counter;
}

const phaseBuckets = [10, 30, 60, 180, 600, 1800];
const setLabels = ["namespace", "cocoonset"];

const known = new WeakMap<Registry, OperatorMetrics>();

/** One set of metrics per registry: counters continue when a replica leads again. */
export function operatorMetrics(registry: Registry): OperatorMetrics {
  const metrics = known.get(registry) ?? createMetrics(registry);
  known.set(registry, metrics);
  return metrics;
}

function createMetrics(registry: Registry): OperatorMetrics {
  const metrics = new MetricFactory(registry, "cocoon_operator_");
  const counter = metrics.counter.bind(metrics);
  const histogram = (name: string, help: string) =>
    metrics.histogram(name, help, { labels: ["result"], buckets: phaseBuckets });
  return {
    subAgentRebuild: counter("subagent_rebuild_total", "Machines rebuilt after a failure.", setLabels),
    subAgentDeadLetter: counter("subagent_dead_letter_total", "Machines left after all rebuilds.", setLabels),
    hibernateSeconds: histogram(
      "hibernate_phase_duration_seconds",
      "Time from the request to a proven snapshot.",
    ),
    wakeSeconds: histogram("wake_phase_duration_seconds", "Time from the request to a ready machine."),
    lifecycleFailed: counter(
      "lifecycle_state_failed_observed_total",
      "Main agents found failed, by the phase of their set before.",
      ["phase"],
    ),
    slotsReleased: counter("slot_release_pods_deleted_total", "Pods released by suspended sets.", setLabels),
    slotWakes: counter("slot_release_wake_total", "Machines woken without a pod.", [
      ...setLabels,
      "placement",
    ]),
    slotWakeUnschedulable: counter(
      "slot_release_wake_unschedulable_total",
      "Wakes without a pod that found no node.",
      setLabels,
    ),
  };
}
