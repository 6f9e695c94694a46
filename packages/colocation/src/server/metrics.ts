/** What is counted: Koordinator's series under its names, and ours. */
import { MetricFactory, type Histogram, type Registry } from "@cocoon/core";
import type { AdmissionHandler, Decision, Middleware, ReviewObserver } from "@cocoon/kube/admission";
import type { RulePolicy } from "../handlers.ts";
import type { RuleName } from "../rules.ts";

export interface ColocationMetrics {
  /** Runs one step of an endpoint and takes its time. */
  timed(
    webhookType: "mutate" | "validate",
    objectType: string,
  ): <T>(plugin: string, operation: string, work: () => T) => T;
  timedHandler(step: HandlerStep, handler: AdmissionHandler): AdmissionHandler;
  readonly observe: ReviewObserver;
  readonly inFlight: Middleware;
  readonly decided: (decision: string) => void;
  readonly weighed: (quota: string, resource: string, value: number) => void;
  readonly broken: RulePolicy["broken"];
  readonly limited: (endpoint: string, outcome: "refused" | "allowed") => void;
  readonly failed: (endpoint: string, outcome: "refused" | "allowed") => void;
}

export interface HandlerStep {
  readonly webhookType: "mutate" | "validate";
  readonly objectType: string;
  readonly plugin: string;
}

/** 20 buckets from a microsecond on, each twice the one before, in milliseconds. */
const durationBuckets = Array.from({ length: 20 }, (_, index) => 0.001 * 2 ** index);

export function createColocationMetrics(registry: Registry): ColocationMetrics {
  const manager = new MetricFactory(registry, "koord_manager_webhook_");
  const ours = new MetricFactory(registry, "cocoon_colocation_");
  const duration = manager.histogram("webhook_duration_milliseconds", "Time of each step of a webhook.", {
    labels: ["webhook_type", "object_type", "operation", "plugin_name", "status"],
    buckets: durationBuckets,
  });
  const weight = manager.gauge("quota_shared_weight", "Shared weight that a new quota was given.", {
    labels: ["elasticquota_name", "resource_name"],
  });
  const bindings = manager.counter("binding_admission_decisions_total", "Binding decisions.", ["decision"]);
  const rules = ours.counter("rule_violations_total", "Broken rules, refused or only warned about.", [
    "rule",
    "outcome",
  ]);
  const perEndpoint = ["endpoint", "outcome"] as const;
  const limits = ours.counter("rate_limited_total", "Requests over the rate limit.", perEndpoint);
  const failures = ours.counter("failures_total", "Requests that could not be decided.", perEndpoint);
  return {
    timed: (webhookType, objectType) => (plugin, operation, work) =>
      timeStep(
        duration,
        { webhook_type: webhookType, object_type: objectType, operation, plugin_name: plugin },
        work,
      ),
    timedHandler: (step, handler) => timeHandler(duration, step, handler),
    observe: controllerRuntimeSeries(registry),
    inFlight: inFlightSeries(registry),
    decided: (decision) => bindings.inc({ decision }),
    weighed: (quota, resource, value) =>
      weight.set({ elasticquota_name: quota, resource_name: resource }, value),
    broken: (rule: RuleName, outcome) => rules.inc({ rule, outcome }),
    limited: (endpoint, outcome) => limits.inc({ endpoint, outcome }),
    failed: (endpoint, outcome) => failures.inc({ endpoint, outcome }),
  };
}

type StepLabels = Readonly<Record<"webhook_type" | "object_type" | "operation" | "plugin_name", string>>;

/** A step that yields refusals was rejected by them; one that throws, by that. */
function timeStep<T>(histogram: Histogram, labels: StepLabels, work: () => T): T {
  const began = performance.now();
  let status = "rejected";
  try {
    const result = work();
    if (!(Array.isArray(result) && result.length > 0)) status = "allowed";
    return result;
  } finally {
    histogram.observe({ ...labels, operation: known(labels.operation), status }, performance.now() - began);
  }
}

function timeHandler(
  histogram: Histogram,
  { webhookType, objectType, plugin }: HandlerStep,
  handler: AdmissionHandler,
): AdmissionHandler {
  return (request, context) => {
    const began = performance.now();
    const finish = (decision: Decision): Decision => {
      const labels = { webhook_type: webhookType, object_type: objectType, plugin_name: plugin };
      const status = decision?.kind === "deny" ? "rejected" : "allowed";
      const operation = known(request.operation);
      histogram.observe({ ...labels, operation, status }, performance.now() - began);
      return decision;
    };
    const decision = handler(request, context);
    return decision instanceof Promise ? decision.then(finish) : finish(decision);
  };
}

/** Operations come from outside; a label must not. */
function known(operation: string): string {
  return ["CREATE", "UPDATE", "DELETE", "CONNECT"].includes(operation) ? operation : "other";
}

function inFlightSeries(registry: Registry): Middleware {
  const open = new MetricFactory(registry).gauge(
    "controller_runtime_webhook_requests_in_flight",
    "Admission requests that are being answered.",
    { labels: ["webhook"] },
  );
  return (next, { name }) => {
    const labels = { webhook: `/${name}` };
    return (request, context) => {
      open.inc(labels);
      const decision = next(request, context);
      if (decision instanceof Promise) return decision.finally(() => open.dec(labels));
      open.dec(labels);
      return decision;
    };
  };
}

/** The series that dashboards of webhooks made with controller-runtime look for. */
function controllerRuntimeSeries(registry: Registry): ReviewObserver {
  const metrics = new MetricFactory(registry, "controller_runtime_webhook_");
  const total = metrics.counter("requests_total", "Admission requests by HTTP status code.", [
    "webhook",
    "code",
  ]);
  const latency = metrics.histogram("latency_seconds", "Time of admission requests.", {
    labels: ["webhook"],
  });
  return ({ handler, status, seconds }) => {
    total.inc({ webhook: `/${handler}`, code: String(status) });
    latency.observe({ webhook: `/${handler}` }, seconds);
  };
}
