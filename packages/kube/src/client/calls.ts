/** One call to the API server: sent with its deadline, sent again when the server names a time to retry, failures as Faults. */
import type { Duplex } from "node:stream";
import { Fault, isFault, sleep, Counter, Histogram, openMetric, type Registry } from "@cocoon/core";
import type { ByteStream, CallOptions, RawRequest, StreamRequest, UpgradeRequest } from "./client.ts";
import { readFailedAnswer, isUnservedKind, type FailedAnswer } from "./errors.ts";
import { formatApiVersion, type KubeObject, type ResourceType } from "../object.ts";
import type { HttpAnswer, Transport } from "./transport.ts";

export interface Call extends CallOptions {
  readonly method: RawRequest["method"];
  readonly path: string;
  readonly labels: RequestLabels;
  readonly body?: string | undefined;
  readonly contentType?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** What is requested, in messages: `get pods "ns/name"`. */
  readonly what: string;
  /** The kind that is requested; a bare 404 then means that the server does not serve it. */
  readonly kind?: ResourceType<KubeObject>;
}

export interface CallSettings {
  readonly timeoutMs: number;
  readonly observe: ObserveRequest;
}

const mostResends = 10;
/** An error answer of a stream is a small Status object; more than this is not read. */
const mostErrorText = 64 * 1024;

export class Calls implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #settings: CallSettings;

  constructor(transport: Transport, settings: CallSettings) {
    this.#transport = transport;
    this.#settings = settings;
  }

  async json<T>(call: Call): Promise<T> {
    return parseAnswer(await this.answer(call), call.what) as T;
  }

  /** Sends the call, and again while the server answers 429 and names a time to wait that the deadline allows. */
  async answer(call: Call): Promise<HttpAnswer> {
    const giveUpAt = performance.now() + (call.timeoutMs ?? this.#settings.timeoutMs);
    for (let sent = 1; ; sent += 1) {
      const answer = await this.#send(call, Math.max(1, Math.round(giveUpAt - performance.now())));
      if (isSuccess(answer.status)) return answer;
      const fault = buildFault(call, answer);
      const waitMs = resendAfterMs(fault);
      if (waitMs === undefined || sent > mostResends || performance.now() + waitMs > giveUpAt) throw fault;
      if (!(await sleep(waitMs, call))) call.signal.throwIfAborted();
    }
  }

  async #send(call: Call, timeoutMs: number): Promise<HttpAnswer> {
    const { method, path, body, signal } = call;
    const contentType = call.contentType ?? "application/json";
    const headers = {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": contentType }),
      ...call.headers,
    };
    const observe = this.#stopwatch(call.labels);
    try {
      const answer = await this.#transport.send({ method, path, headers, body, signal, timeoutMs });
      observe(String(answer.status));
      return answer;
    } catch (error) {
      if (!signal.aborted && isFault(error)) observe(error.code);
      throw error;
    }
  }

  async stream(request: StreamRequest): Promise<ByteStream> {
    const { path, signal, verb, resource } = request;
    const observe = this.#stopwatch({ verb, resource });
    const timeoutMs = request.timeoutMs ?? this.#settings.timeoutMs;
    const headers = { accept: "application/json", ...request.headers };
    const stream = await this.#transport
      .open({ method: "GET", path, headers, signal, timeoutMs })
      .catch((error: unknown) => {
        if (!signal.aborted && isFault(error)) observe(error.code);
        throw error;
      });
    observe(String(stream.status));
    if (isSuccess(stream.status)) return stream;
    const failed = { status: stream.status, headers: stream.headers, text: await readText(stream.chunks) };
    throw buildFault({ what: `${verb} ${resource}` }, failed);
  }

  upgrade(request: UpgradeRequest): Promise<Duplex> {
    const timeoutMs = request.timeoutMs ?? this.#settings.timeoutMs;
    return this.#transport.upgrade({ ...request, method: "POST", timeoutMs });
  }

  #stopwatch(labels: RequestLabels): (code: string) => void {
    const started = performance.now();
    return (code) => this.#settings.observe(labels, { code, ms: performance.now() - started });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** A refusal with causes (a disruption budget) is an answer, not a busy server: the caller decides about it. */
function resendAfterMs(fault: Fault): number | undefined {
  return fault.code === "tooManyRequests" && fault.causes.length === 0 ? fault.retryAfterMs : undefined;
}

function buildFault(
  { kind, what }: Pick<Call, "kind" | "what">,
  { status, headers, text }: HttpAnswer,
): Fault {
  const retryAfter = headers["retry-after"];
  const failed: FailedAnswer = { status, text, what, retryAfter: retryAfter?.toString() };
  if (!kind || !isUnservedKind(failed)) return readFailedAnswer(failed);
  return new Fault(
    "unavailable",
    `${what}: the API server does not serve ${kind.plural} of ${formatApiVersion(kind)}; is its definition installed?`,
  );
}

function parseAnswer(answer: HttpAnswer, what: string): unknown {
  try {
    return JSON.parse(answer.text);
  } catch (error) {
    throw new Fault("unavailable", `${what}: the answer is not JSON; is this an API server?`, {
      cause: error,
    });
  }
}

async function readText(chunks: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    size += chunk.length;
    if (size > mostErrorText) break;
  }
  return Buffer.concat(parts).toString("utf8");
}

interface RequestLabels {
  readonly verb: string;
  readonly resource: string;
}

type ObserveRequest = (
  labels: RequestLabels,
  outcome: { readonly code: string; readonly ms: number },
) => void;

export function requestMetrics(registry: Registry | undefined): ObserveRequest {
  if (!registry) return () => {};
  const counter = openMetric(registry, Counter, {
    name: "kube_client_requests_total",
    help: "Requests to the API server by verb, resource and HTTP status, or the fault when there was no answer.",
    labelNames: ["verb", "resource", "code"],
  });
  const histogram = openMetric(registry, Histogram, {
    name: "kube_client_request_duration_seconds",
    help: "Time until the answer of the API server was complete; for watches, until it began.",
    labelNames: ["verb", "resource"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  });
  return ({ verb, resource }, { code, ms }) => {
    counter.inc({ verb, resource, code });
    histogram.observe({ verb, resource }, ms / 1000);
  };
}
