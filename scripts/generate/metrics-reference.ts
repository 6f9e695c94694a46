/** docs/reference/metrics.md: what each service exports, from the metric objects that it makes. */
import { createRegistry, type Registry } from "@cocoon/core";
import { createColocationMetrics } from "../../packages/colocation/src/server/metrics.ts";
import { createAdmissionMetrics } from "../../packages/kube/src/admission/metrics.ts";
import { exportCertificateMetrics } from "../../packages/kube/src/certificates/serving-certificates.ts";
import { controllerMetrics } from "../../packages/kube/src/controller/controller-metrics.ts";
import { eventCounter } from "../../packages/kube/src/controller/event-recorder.ts";
import { statusGauge } from "../../packages/kube/src/controller/leader-election.ts";
import { requestMetrics } from "../../packages/kube/src/client/calls.ts";
import { operatorMetrics } from "../../packages/operator/src/metrics.ts";
import { exportPhaseGauges } from "../../packages/operator/src/phase-gauges.ts";
import { createMetrics } from "../../packages/registry/src/open-services.ts";
import { createVkMetrics } from "../../packages/vk/src/metrics.ts";
import { createAddressMetrics, createNetworkMetrics } from "../../packages/vk/src/network-metrics.ts";
import { createUsageMetrics } from "../../packages/vk/src/usage-metrics.ts";
import { createWebhookMetrics } from "../../packages/webhook/src/metrics.ts";
import type { Generator } from "./generator.ts";
import { code, notice, table } from "./markdown.ts";

const path = "docs/reference/metrics.md";

export const metricsReference: Generator = {
  name: "metrics reference",
  owns: [path],
  generate: async () => {
    const sections = await Promise.all(services.map(section));
    return [{ path, content: `${notice("the metric objects of the services")}${intro}${sections.join("")}` }];
  },
};

const intro = `# Metrics

Prometheus text over plain HTTP; on which address stands in [settings](settings.md). Every service also exports \`cocoon_build_info\`
(\`program\`, \`version\`, \`revision\`; always 1) and the process metrics of Node (\`process_…\`, \`nodejs_…\`). Histograms have the
usual \`_bucket\`, \`_sum\` and \`_count\`. Labels never hold what a client may choose freely. vk-cocoon also serves the kubelet's own
\`/metrics/resource\` and \`/stats/summary\` on its kubelet port.
`;

interface Service {
  readonly name: string;
  readonly where: string;
  /** Makes the metrics that the service makes. */
  readonly fill: (registry: Registry) => void;
  /** Instead, where a service brings its own registry. */
  readonly own?: () => Registry;
}

const idleQueue = { ready: 0, delayed: 0, running: 0, unfinishedMs: 0, longestRunningMs: 0 };

function controllers(registry: Registry): void {
  controllerMetrics(registry, {
    name: "example",
    concurrency: 1,
    stats: () => idleQueue,
    failing: () => ({ retrying: 0, terminal: 0 }),
  });
}

const certificate = { daysToExpiry: () => 0, readiness: () => undefined };

const services: readonly Service[] = [
  {
    name: "vk-cocoon",
    where: "`VK_METRICS_ADDR`",
    fill: (registry) => {
      createVkMetrics(registry);
      createNetworkMetrics(registry);
      createAddressMetrics(registry, { runtime: { list: async () => [] } } as never);
      createUsageMetrics(registry, { machines: () => [], rootDirectory: "/" } as never);
      controllers(registry);
    },
  },
  {
    name: "cocoon-operator",
    where: "`METRICS_ADDR`",
    fill: (registry) => {
      operatorMetrics(registry);
      exportPhaseGauges(registry, { sets: { list: () => [] }, hibernations: { list: () => [] } });
      controllers(registry);
      requestMetrics(registry);
      eventCounter(registry);
      statusGauge(registry, "example");
    },
  },
  {
    name: "cocoon-webhook",
    where: "`METRICS_ADDR`",
    fill: (registry) => {
      createWebhookMetrics(registry, () => 0);
      createAdmissionMetrics(registry, "cocoon_webhook");
      exportCertificateMetrics(registry, certificate);
      requestMetrics(registry);
      eventCounter(registry);
      statusGauge(registry, "example");
    },
  },
  {
    name: "cocoon-colocation",
    where: "`METRICS_ADDR`",
    fill: (registry) => {
      createColocationMetrics(registry);
      createAdmissionMetrics(registry, "cocoon_colocation_admission");
      exportCertificateMetrics(registry, certificate, "cocoon_colocation_certificate");
    },
  },
  {
    name: "epoch",
    where: "`--health-addr`",
    fill: () => undefined,
    own: () =>
      createMetrics({
        uploads: { openSessions: 0, heldBytes: 0 },
        scrubber: { totals: { blobs: 0, damaged: 0, repaired: 0 } },
        damaged: { size: 0 },
      }).registry,
  },
];

async function section({ name, where, fill, own }: Service): Promise<string> {
  const registry = own?.() ?? createRegistry(name);
  fill(registry);
  const described = await registry.getMetricsAsJSON();
  const rows = described
    .filter(({ name: metric }) => !/^(process|nodejs)_|^cocoon_build_info$/.test(metric))
    .map((metric) => [
      code(metric.name),
      String(metric.type),
      listLabels(registry, metric.name).map(code).join(", "),
      metric.help,
    ])
    .toSorted(([left = ""], [right = ""]) => (left < right ? -1 : 1));
  return `\n## ${name}\n\nOn ${where}.\n\n${table(["Name", "Type", "Labels", "Meaning"], rows)}`;
}

/** prom-client keeps them on the metric, but does not report them. */
function listLabels(registry: Registry, name: string): readonly string[] {
  const metric: unknown = registry.getSingleMetric(name);
  const names = (metric as { readonly labelNames?: readonly string[] } | undefined)?.labelNames;
  return names ?? [];
}
