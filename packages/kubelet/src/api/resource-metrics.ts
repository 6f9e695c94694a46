/** `/metrics/resource`: the stats summary as Prometheus text, which is what metrics-server reads. */
import type { NodeStats, PodStats, StatsSummary } from "./stats-summary.ts";

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

function families(summary: StatsSummary): readonly Family[] {
  return [...nodeFamilies(summary.node), ...podFamilies(summary.pods), ...containerFamilies(summary.pods)];
}

function seconds(nanoSeconds: number | undefined): number | undefined {
  return nanoSeconds === undefined ? undefined : nanoSeconds / nano;
}

interface Measured {
  readonly usage: Pick<PodStats, "cpu" | "memory">;
  readonly labels: Sample["labels"];
}

/** CPU and memory of something: the two families that every level has. */
function usageFamilies(what: "node" | "pod" | "container", measured: readonly Measured[]): readonly Family[] {
  return [
    {
      name: `${what}_cpu_usage_seconds_total`,
      type: "counter",
      help: `Cumulative cpu time consumed by the ${what} in core-seconds`,
      samples: measured.map(({ usage, labels }) => ({
        labels,
        value: seconds(usage.cpu?.usageCoreNanoSeconds),
        time: usage.cpu?.time ?? "",
      })),
    },
    {
      name: `${what}_memory_working_set_bytes`,
      type: "gauge",
      help: `Current working set of the ${what} in bytes`,
      samples: measured.map(({ usage, labels }) => ({
        labels,
        value: usage.memory?.workingSetBytes,
        time: usage.memory?.time ?? "",
      })),
    },
  ];
}

function nodeFamilies(node: NodeStats): readonly Family[] {
  return usageFamilies("node", [{ usage: node, labels: {} }]);
}

function podFamilies(pods: readonly PodStats[]): readonly Family[] {
  return usageFamilies(
    "pod",
    pods.map((pod) => ({ usage: pod, labels: podLabels(pod) })),
  );
}

function containerFamilies(pods: readonly PodStats[]): readonly Family[] {
  const all = pods.flatMap((pod) =>
    pod.containers.map((container) => ({
      usage: container,
      labels: { container: container.name, ...podLabels(pod) },
    })),
  );
  const started: Family = {
    name: "container_start_time_seconds",
    type: "gauge",
    help: "Start time of the container since unix epoch in seconds",
    samples: all.map(({ usage, labels }) => ({
      labels,
      value: Date.parse(usage.startTime) / 1000,
      time: usage.cpu?.time ?? "",
    })),
  };
  return [...usageFamilies("container", all), started];
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
