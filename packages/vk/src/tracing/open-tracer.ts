/** The tracer of this process: to an OpenTelemetry collector where one is named, otherwise to nowhere. */
import { trace, type Tracer } from "@opentelemetry/api";
import { versionText } from "@cocoon/core";

export interface OpenTracer extends AsyncDisposable {
  readonly tracer: Tracer;
}

const name = "vk-cocoon";
/** A collector that does not answer must not hold up the end of the kubelet. */
const flushMs = 3_000;

/** The SDK is loaded only where it is used. */
export async function openTracer({
  endpoint,
  node,
}: {
  readonly endpoint: string | undefined;
  readonly node: string;
}): Promise<OpenTracer> {
  if (endpoint === undefined)
    return { tracer: trace.getTracer(name), [Symbol.asyncDispose]: () => Promise.resolve() };
  const [{ BatchSpanProcessor, TracerProvider }, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await Promise.all([
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, "")}/v1/traces` });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": name,
      "service.version": versionText(name).trim(),
      "k8s.node.name": node,
    }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  return {
    tracer: provider.getTracer(name),
    [Symbol.asyncDispose]: async () => {
      await Promise.race([
        provider.shutdown().catch(() => undefined),
        new Promise((resolve) => setTimeout(resolve, flushMs).unref()),
      ]);
    },
  };
}
