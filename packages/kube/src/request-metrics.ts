/** Optional numbers about the requests of a client, in a registry that the program hands in. */
import { Counter, Histogram, type Registry } from "@cocoon/core";

export interface RequestLabels {
  /** get, list, watch, create, update, patch, delete, raw */
  readonly verb: string;
  /** `pods`, `deployments.apps`, or "" for raw requests. */
  readonly resource: string;
}

export type ObserveRequest = (
  labels: RequestLabels,
  outcome: { readonly code: string; readonly ms: number },
) => void;

const countName = "kube_client_requests_total";
const latencyName = "kube_client_request_duration_seconds";

export function requestMetrics(registry: Registry | undefined): ObserveRequest {
  if (!registry) return () => {};
  const counter = existing(registry, countName, Counter) ?? newCounter(registry);
  const histogram = existing(registry, latencyName, Histogram) ?? newHistogram(registry);
  return ({ verb, resource }, { code, ms }) => {
    counter.inc({ verb, resource, code });
    histogram.observe({ verb, resource }, ms / 1000);
  };
}

/** Two clients of one program share their numbers. */
function existing<M>(
  registry: Registry,
  name: string,
  type: abstract new (...args: never[]) => M,
): M | undefined {
  const metric = registry.getSingleMetric(name);
  return metric instanceof type ? metric : undefined;
}

function newCounter(registry: Registry): Counter {
  return new Counter({
    name: countName,
    help: "Requests to the API server by verb, resource and HTTP status, or the fault when there was no answer.",
    labelNames: ["verb", "resource", "code"],
    registers: [registry],
  });
}

function newHistogram(registry: Registry): Histogram {
  return new Histogram({
    name: latencyName,
    help: "Time until the answer of the API server was complete; for watches, until it began.",
    labelNames: ["verb", "resource"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  });
}
