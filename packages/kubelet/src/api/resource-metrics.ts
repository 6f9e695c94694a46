/** `/metrics/resource`: the stats summary as Prometheus text, which is what metrics-server reads. */
import type { PodStats, StatsSummary } from "./stats-summary.ts";

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | undefined;
  readonly time: string;
}

interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly help: string;
  readonly samples: readonly Sample[];
}

const nano = 1e9;

export function resourceMetricsText(summary: StatsSummary): string {
  return `${families(summary).map(familyText).join("")}# HELP resource_scrape_error 1 if there was an error while getting metrics, 0 otherwise\n# TYPE resource_scrape_error gauge\nresource_scrape_error 0\n`;
}

function families({ node, pods }: StatsSummary): readonly Family[] {
  const seconds = (nanoSeconds: number | undefined) =>
    nanoSeconds === undefined ? undefined : nanoSeconds / nano;
  const eachContainer = pods.flatMap((pod) =>
    pod.containers.map((container) => ({
      pod,
      container,
      labels: { container: container.name, ...podLabels(pod) },
    })),
  );
  return [
    {
      name: "node_cpu_usage_seconds_total",
      type: "counter",
      help: "Cumulative cpu time consumed by the node in core-seconds",
      samples: [{ labels: {}, value: seconds(node.cpu?.usageCoreNanoSeconds), time: node.cpu?.time ?? "" }],
    },
    {
      name: "node_memory_working_set_bytes",
      type: "gauge",
      help: "Current working set of the node in bytes",
      samples: [{ labels: {}, value: node.memory?.workingSetBytes, time: node.memory?.time ?? "" }],
    },
    {
      name: "pod_cpu_usage_seconds_total",
      type: "counter",
      help: "Cumulative cpu time consumed by the pod in core-seconds",
      samples: pods.map((pod) => ({
        labels: podLabels(pod),
        value: seconds(pod.cpu?.usageCoreNanoSeconds),
        time: pod.cpu?.time ?? "",
      })),
    },
    {
      name: "pod_memory_working_set_bytes",
      type: "gauge",
      help: "Current working set of the pod in bytes",
      samples: pods.map((pod) => ({
        labels: podLabels(pod),
        value: pod.memory?.workingSetBytes,
        time: pod.memory?.time ?? "",
      })),
    },
    {
      name: "container_cpu_usage_seconds_total",
      type: "counter",
      help: "Cumulative cpu time consumed by the container in core-seconds",
      samples: eachContainer.map(({ container, labels }) => ({
        labels,
        value: seconds(container.cpu?.usageCoreNanoSeconds),
        time: container.cpu?.time ?? "",
      })),
    },
    {
      name: "container_memory_working_set_bytes",
      type: "gauge",
      help: "Current working set of the container in bytes",
      samples: eachContainer.map(({ container, labels }) => ({
        labels,
        value: container.memory?.workingSetBytes,
        time: container.memory?.time ?? "",
      })),
    },
    {
      name: "container_start_time_seconds",
      type: "gauge",
      help: "Start time of the container since unix epoch in seconds",
      samples: eachContainer.map(({ container, labels }) => ({
        labels,
        value: Date.parse(container.startTime) / 1000,
        time: container.cpu?.time ?? "",
      })),
    },
  ];
}

function podLabels(pod: PodStats): Readonly<Record<string, string>> {
  return { namespace: pod.podRef.namespace, pod: pod.podRef.name };
}

function familyText(family: Family): string {
  const measured = family.samples.filter(
    (sample) => sample.value !== undefined && Number.isFinite(sample.value),
  );
  if (measured.length === 0) return "";
  const lines = measured.map(
    (sample) => `${family.name}${labelText(sample.labels)} ${sample.value}${timeText(sample.time)}`,
  );
  return `# HELP ${family.name} ${family.help}\n# TYPE ${family.name} ${family.type}\n${lines.join("\n")}\n`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) =>
      `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function timeText(time: string): string {
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? "" : ` ${ms}`;
}
