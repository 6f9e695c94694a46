/** `/metrics/resource`: the stats summary as Prometheus text, which is what metrics-server reads. */
import type { PodStats, StatsSummary } from "./stats-summary.ts";

type Labels = Readonly<Record<string, string>>;

interface Measured {
  readonly usage: Pick<PodStats, "cpu" | "memory">;
  readonly labels: Labels;
}

interface Sample {
  readonly labels: Labels;
  readonly value: number | undefined;
  readonly time?: string | undefined;
}

export function resourceMetricsText({ node, pods }: StatsSummary): string {
  const containers = pods.flatMap((pod) =>
    pod.containers.map((usage) => ({ usage, labels: { container: usage.name, ...podLabels(pod) } })),
  );
  const started = containers.map(({ usage, labels }) => ({
    labels,
    value: Date.parse(usage.startTime) / 1000,
    time: usage.cpu?.time,
  }));
  return [
    usageText("node", [{ usage: node, labels: {} }]),
    usageText(
      "pod",
      pods.map((pod) => ({ usage: pod, labels: podLabels(pod) })),
    ),
    usageText("container", containers),
    familyText(
      "container_start_time_seconds",
      "gauge Start time of the container since unix epoch in seconds",
      started,
    ),
    familyText("resource_scrape_error", "gauge 1 if there was an error while getting metrics, 0 otherwise", [
      { labels: {}, value: 0 },
    ]),
  ].join("");
}

function usageText(what: "node" | "pod" | "container", measured: readonly Measured[]): string {
  const cpu = measured.map(({ usage: { cpu: used }, labels }) => ({
    labels,
    value: used?.usageCoreNanoSeconds === undefined ? undefined : used.usageCoreNanoSeconds / 1e9,
    time: used?.time,
  }));
  const memory = measured.map(({ usage: { memory: used }, labels }) => ({
    labels,
    value: used?.workingSetBytes,
    time: used?.time,
  }));
  return (
    familyText(
      `${what}_cpu_usage_seconds_total`,
      `counter Cumulative cpu time consumed by the ${what} in core-seconds`,
      cpu,
    ) +
    familyText(
      `${what}_memory_working_set_bytes`,
      `gauge Current working set of the ${what} in bytes`,
      memory,
    )
  );
}

function podLabels({ podRef: { namespace, name } }: PodStats): Labels {
  return { namespace, pod: name };
}

/** `about` is the type, then the help; a family without numbers is left out. */
function familyText(name: string, about: string, samples: readonly Sample[]): string {
  const [type = "", ...help] = about.split(" ");
  const measured = samples.filter(({ value }) => value !== undefined && Number.isFinite(value));
  if (measured.length === 0) return "";
  const lines = measured.map(
    ({ labels, value, time }) => `${name}${labelText(labels)} ${value}${timeText(time)}`,
  );
  return `# HELP ${name} ${help.join(" ")}\n# TYPE ${name} ${type}\n${lines.join("\n")}\n`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) =>
      `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function timeText(time = ""): string {
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? "" : ` ${ms}`;
}
