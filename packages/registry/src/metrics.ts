/** What the registry counts. */
import { createRegistry, MetricFactory, type Counter, type Histogram, type Registry } from "@cocoon/core";
import type { GcReport } from "./gc/collector.ts";

export interface RequestSample {
  readonly route: string;
  readonly method: string;
  readonly status: number;
  readonly tookMs: number;
}

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

export class RegistryMetrics {
  readonly registry: Registry;
  readonly #requests: Counter<"route" | "method" | "code">;
  readonly #seconds: Histogram<"route" | "method">;
  readonly #bytes: Counter<"direction">;
  readonly #collected: Counter<"what">;
  readonly #collections: Counter<"outcome">;

  constructor() {
    this.registry = createRegistry("epoch");
    const metrics = new MetricFactory(this.registry, "epoch_");
    this.#requests = metrics.counter(
      "http_requests_total",
      "Requests answered, by route, method and status; 499 when the client left first.",
      ["route", "method", "code"],
    );
    this.#seconds = metrics.histogram(
      "http_request_duration_seconds",
      "Time from the first byte of a request to the end of its answer.",
      { labels: ["route", "method"], buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600] },
    );
    this.#bytes = metrics.counter(
      "blob_bytes_total",
      "Bytes of blobs received and committed (in) or sent (out).",
      ["direction"],
    );
    this.#collected = metrics.counter(
      "gc_removed_total",
      "What garbage collection removed: tags, manifests, links, blobs, bytes, uploads.",
      ["what"],
    );
    this.#collections = metrics.counter("gc_runs_total", "Runs of garbage collection.", ["outcome"]);
  }

  countRequest({ route, method, status, tookMs }: RequestSample): void {
    // The method is the client's own word: a label must not grow with it.
    const known = methods.has(method) ? method : "other";
    this.#requests.inc({ route, method: known, code: String(status) });
    this.#seconds.observe({ route, method: known }, tookMs / 1_000);
  }

  countBytes(direction: "in" | "out", bytes: number): void {
    this.#bytes.inc({ direction }, bytes);
  }

  countCollection(report: GcReport | undefined): void {
    this.#collections.inc({ outcome: report ? "done" : "failed" });
    for (const what of ["tags", "manifests", "links", "blobs", "bytes", "uploads"] as const)
      this.#collected.inc({ what }, report?.[what] ?? 0);
  }

  watch(name: string, help: string, read: () => number): void {
    new MetricFactory(this.registry).gauge(name, help, { collect: (gauge) => gauge.set(read()) });
  }
}
