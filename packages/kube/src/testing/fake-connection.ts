/** A connection whose streams a test writes itself, answer by answer. */
import type { ByteStream, KubeConnection, StreamRequest } from "../client/client.ts";

export interface Asked {
  readonly path: string;
  readonly query: URLSearchParams;
}

/** What the server sends for one request; throws for an error answer. Ends the answer when it ends. */
export type Answer = (
  asked: Asked,
  signal: AbortSignal,
) => AsyncIterable<string | Buffer> | Iterable<string | Buffer>;

export interface FakeConnection {
  readonly connection: KubeConnection;
  readonly asked: Asked[];
  /** How far the server says it is when it is asked before a watch is opened again; not part of the script. */
  serverVersion: string;
}

/** The last answer is given again and again. */
export function fakeConnection(...answers: readonly Answer[]): FakeConnection {
  const asked: Asked[] = [];
  const stream = async ({ path, signal }: StreamRequest): Promise<ByteStream> => {
    const url = new URL(path, "https://x");
    const request = { path: url.pathname, query: url.searchParams };
    if (request.query.get("limit") === "1")
      return { chunks: splitChunks([list(script.serverVersion, [])], signal), cancel: () => undefined };
    const answer = answers[Math.min(asked.length, answers.length - 1)];
    asked.push(request);
    if (!answer) throw new Error("the script has no answer");
    const cancelled = new AbortController();
    const both = AbortSignal.any([signal, cancelled.signal]);
    return {
      chunks: splitChunks(answer(request, both), both),
      cancel: (reason) => cancelled.abort(reason),
    };
  };
  const script: FakeConnection = {
    connection: { stream } as Partial<KubeConnection> as KubeConnection,
    asked,
    serverVersion: "1000000000",
  };
  return script;
}

async function* splitChunks(
  parts: AsyncIterable<string | Buffer> | Iterable<string | Buffer>,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for await (const part of parts) {
    signal.throwIfAborted();
    yield typeof part === "string" ? Buffer.from(part) : part;
  }
  signal.throwIfAborted();
}

/** The answer goes on without a word until it is cut. */
export async function* silence(signal: AbortSignal): AsyncGenerator<string> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  yield* [];
}

export function frame(type: string, object: unknown): string {
  return `${JSON.stringify({ type, object })}\n`;
}

export function bookmark(resourceVersion: string, initialEnd = false): string {
  const annotations = initialEnd ? { "k8s.io/initial-events-end": "true" } : {};
  return frame("BOOKMARK", { kind: "ConfigMap", metadata: { resourceVersion, annotations } });
}

export interface TestObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
  readonly data: Readonly<Record<string, string>>;
}

export function testObject(
  name: string,
  resourceVersion: string,
  more: { uid?: string; data?: Record<string, string> } = {},
): TestObject {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: "n", name, uid: more.uid ?? `uid-${name}`, resourceVersion },
    data: more.data ?? {},
  };
}

export function list(resourceVersion: string, items: readonly unknown[], continueToken?: string): string {
  const metadata = { resourceVersion, ...(continueToken && { continue: continueToken }) };
  return JSON.stringify({ kind: "ConfigMapList", apiVersion: "v1", metadata, items });
}
