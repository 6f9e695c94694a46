/** Both admission servers. */
import { quantile, rate, formatShare, type Dashboard } from "./panel.ts";

export const admission: Dashboard = {
  file: "admission",
  title: "Cocoon: admission",
  panels: [
    {
      title: "Webhook: requests",
      unit: "reqps",
      series: { "{{handler}} {{result}}": rate("cocoon_webhook_requests_total", "handler, result") },
    },
    {
      title: "Webhook: share of failures",
      unit: "percentunit",
      series: { failed: formatShare("cocoon_webhook_requests_total", 'result=~"error|expired"') },
    },
    {
      title: "Webhook: time",
      unit: "s",
      series: {
        "p50 {{handler}}": quantile(0.5, "cocoon_webhook_request_duration_seconds", "handler"),
        "p99 {{handler}}": quantile(0.99, "cocoon_webhook_request_duration_seconds", "handler"),
      },
    },
    {
      title: "Webhook: being answered",
      unit: "short",
      series: { "{{handler}}": "sum by (handler) (cocoon_webhook_in_flight_requests)" },
    },
    { title: "Reservations held", unit: "short", series: { held: "max(cocoon_webhook_affinity_entries)" } },
    {
      title: "Reservations",
      unit: "ops",
      series: {
        "granted {{pool}}": rate("cocoon_webhook_affinity_reservations_total", "pool"),
        "released {{pool}}": rate("cocoon_webhook_affinity_releases_total", "pool"),
        writes: "sum(rate(cocoon_webhook_store_writes_total[$__rate_interval]))",
      },
    },
    {
      title: "Machine names used twice",
      unit: "short",
      series: { duplicates: "max(cocoon_webhook_duplicate_vm_names)" },
    },
    {
      title: "Why requests were passed over",
      unit: "reqps",
      series: {
        "{{handler}} {{result}} {{reason}}": rate(
          "cocoon_webhook_admission_total",
          "handler, result, reason",
        ),
      },
    },
    {
      title: "Colocation: requests",
      unit: "reqps",
      series: {
        "{{handler}} {{result}}": rate("cocoon_colocation_admission_requests_total", "handler, result"),
      },
    },
    {
      title: "Colocation: time, 99th percentile",
      unit: "s",
      series: {
        "{{handler}}": quantile(0.99, "cocoon_colocation_admission_request_duration_seconds", "handler"),
      },
    },
    {
      title: "Colocation: broken rules",
      unit: "reqps",
      series: { "{{rule}} {{outcome}}": rate("cocoon_colocation_rule_violations_total", "rule, outcome") },
    },
    {
      title: "Colocation: undecided and sent away",
      unit: "reqps",
      series: {
        "undecided {{endpoint}}": rate("cocoon_colocation_failures_total", "endpoint"),
        "sent away {{endpoint}}": rate("cocoon_colocation_rate_limited_total", "endpoint"),
      },
    },
    {
      title: "Colocation: steps, 99th percentile",
      unit: "ms",
      series: {
        "{{plugin_name}}": quantile(
          0.99,
          "koord_manager_webhook_webhook_duration_milliseconds",
          "plugin_name",
        ),
      },
    },
    {
      title: "Days to the end of certificates",
      unit: "d",
      series: {
        "webhook {{instance}}": "serving_certificate_days_to_expiry",
        "colocation {{instance}}": "cocoon_colocation_certificate_days_to_expiry",
      },
    },
  ],
};
