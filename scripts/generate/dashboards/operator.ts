/** The operator and its queues. */
import { quantile, rate, type Dashboard } from "./panel.ts";

export const operator: Dashboard = {
  file: "operator",
  title: "Cocoon: operator",
  panels: [
    {
      title: "Reconciles",
      unit: "ops",
      series: {
        "{{controller}} {{result}}": rate("controller_runtime_reconcile_total", "controller, result"),
      },
    },
    {
      title: "Reconcile, 99th percentile",
      unit: "s",
      series: { "{{controller}}": quantile(0.99, "controller_runtime_reconcile_time_seconds", "controller") },
    },
    { title: "Waiting in line", unit: "short", series: { "{{name}}": "sum by (name) (workqueue_depth)" } },
    {
      title: "Objects that fail",
      unit: "short",
      series: { "{{controller}} retry={{retry}}": "max by (controller, retry) (controller_failing_objects)" },
    },
    {
      title: "Hibernate and wake duration, 90th percentile",
      unit: "s",
      series: {
        "asleep {{result}}": quantile(0.9, "cocoon_operator_hibernate_phase_duration_seconds", "result"),
        "awake {{result}}": quantile(0.9, "cocoon_operator_wake_phase_duration_seconds", "result"),
      },
    },
    {
      title: "Rebuilt and given up, per hour",
      unit: "short",
      series: {
        "rebuilt {{namespace}}/{{cocoonset}}":
          "sum by (namespace, cocoonset) (increase(cocoon_operator_subagent_rebuild_total[1h]))",
        "given up {{namespace}}/{{cocoonset}}":
          "sum by (namespace, cocoonset) (increase(cocoon_operator_subagent_dead_letter_total[1h]))",
      },
    },
    {
      title: "Seats of sleeping machines, per hour",
      unit: "short",
      series: {
        released: "sum(increase(cocoon_operator_slot_release_pods_deleted_total[1h]))",
        "woken {{placement}}": "sum by (placement) (increase(cocoon_operator_slot_release_wake_total[1h]))",
        "no place": "sum(increase(cocoon_operator_slot_release_wake_unschedulable_total[1h]))",
      },
    },
    {
      title: "Who leads",
      unit: "short",
      series: { "{{name}} {{instance}}": "leader_election_master_status" },
    },
    {
      title: "Requests to the API server",
      unit: "reqps",
      series: {
        "{{verb}} {{resource}} {{code}}": rate("kube_client_requests_total", "verb, resource, code"),
      },
    },
    { title: "Events", unit: "ops", series: { "{{result}}": rate("kube_events_total", "result") } },
  ],
};
