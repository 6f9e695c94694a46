/** What an admission server counts, per handler. */
import { MetricFactory, type Registry } from "@cocoon/core";
import type { ReviewResult } from "./decide.ts";

/** `rejected`: not a review that could be read (400, 405, 413, 415) or too many at once (429). */
export type RequestResult = ReviewResult | "rejected";

export interface AdmissionMetrics {
  readonly started: (handler: string) => void;
  readonly finished: (handler: string, result: RequestResult, seconds: number) => void;
}

const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createAdmissionMetrics(registry: Registry | undefined, prefix: string): AdmissionMetrics {
  const inFlight = new Map<string, number>();
  const move = (handler: string, by: number) => void inFlight.set(handler, (inFlight.get(handler) ?? 0) + by);
  if (!registry) return { started: () => undefined, finished: () => undefined };
  const metrics = new MetricFactory(registry, `${prefix}_`);
  const requests = metrics.counter("requests_total", "Admission requests by handler and how they ended.", [
    "handler",
    "result",
  ]);
  const seconds = metrics.histogram(
    "request_duration_seconds",
    "Time from the headers of an admission request to its answer.",
    { labels: ["handler"], buckets },
  );
  metrics.gauge("in_flight_requests", "Admission requests that are being answered.", {
    labels: ["handler"],
    collect: (gauge) => {
      for (const [handler, now] of inFlight) gauge.set({ handler }, now);
    },
  });
  return {
    started: (handler) => move(handler, 1),
    finished: (handler, result, took) => {
      move(handler, -1);
      requests.inc({ handler, result });
      seconds.observe({ handler }, took);
    },
  };
}
