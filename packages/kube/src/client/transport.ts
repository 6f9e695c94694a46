/** HTTP to one API server: connections, credentials on each request, deadlines, and what failed in words. */
import { Fault, isFault, type Logger } from "@cocoon/core";
import type { Duplex } from "node:stream";
import { Pool, ProxyAgent, type Dispatcher } from "undici";
import { Credentials, type Credential } from "./credentials.ts";
import { Deadline } from "./deadline.ts";
import { explainConnection, isCut, type TargetNames } from "./errors.ts";
import type { KubeTarget } from "./kubeconfig.ts";
import type { TlsMaterial } from "./tls-material.ts";

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export interface HttpStream {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly chunks: AsyncIterable<Buffer>;
  cancel(reason: Error): void;
}

export interface TransportOptions {
  readonly log: Logger;
  readonly userAgent: string;
  /** Most connections for calls; further calls wait for one. Streams have connections of their own. */
  readonly maxConnections: number;
  readonly maxAnswerBytes: number;
}

interface Connections {
  readonly tls: TlsMaterial;
  readonly calls: Dispatcher;
  readonly streams: Dispatcher;
}

/** HTTP/1.1: lists cost the server 40 % more over HTTP/2, small calls are even; a dead connection stops no other watch. */
const allowH2 = false;
const connectTimeoutMs = 10_000;
/** The API server closes an idle connection after 90 s; we do it first, so that no request meets the closing. */
const keepAliveMs = 60_000;
/** Many calls that time out together stand for one failure. */
const distrustEveryMs = 1_000;

export class Transport implements AsyncDisposable {
  readonly #target: KubeTarget;
  readonly #credentials: Credentials;
  readonly #options: TransportOptions;
  readonly #origin: string;
  readonly #prefix: string;
  readonly #retired = new Set<Connections>();
  #connections: Connections | undefined;
  #closed = false;
  #distrustedAt = Number.NEGATIVE_INFINITY;

  constructor(target: KubeTarget, options: TransportOptions) {
    this.#target = target;
    this.#options = options;
    this.#credentials = new Credentials(target, options.log);
    const { origin, pathname } = new URL(target.cluster.server);
    this.#origin = origin;
    this.#prefix = pathname.replace(/\/$/, "");
  }

  /** Reads all credentials once, so that a mistake in them shows at the start. */
  async prepare(signal: AbortSignal): Promise<void> {
    this.#connect((await this.#credentials.current({ signal })).tls);
  }

  /** The whole answer. A read whose connection was cut before the answer began is sent once more. */
  async send(request: HttpRequest): Promise<HttpAnswer> {
    using deadline = new Deadline(request.signal, request.timeoutMs);
    try {
      return await this.#sendOnce(request, deadline);
    } catch (error) {
      if (request.method !== "GET" || deadline.signal.aborted || !isCut(error))
        throw this.#explain(error, request, deadline);
    }
    try {
      return await this.#sendOnce(request, deadline);
    } catch (error) {
      throw this.#explain(error, request, deadline);
    }
  }

  async #sendOnce(request: HttpRequest, deadline: Deadline): Promise<HttpAnswer> {
    const { statusCode, headers, body } = await this.#dispatch(request, { deadline, kind: "calls" });
    return { status: statusCode, headers, text: await body.text() };
  }

  /** The answer as it comes. The deadline counts until its first byte. */
  async open(request: HttpRequest): Promise<HttpStream> {
    const deadline = new Deadline(request.signal, request.timeoutMs);
    try {
      const { statusCode, headers, body } = await this.#dispatch(request, { deadline, kind: "streams" });
      deadline.lift();
      return {
        status: statusCode,
        headers,
        chunks: this.#chunks(body, request, deadline),
        cancel: (reason) => {
          if (isFault(reason, "timeout")) this.#distrust();
          deadline.abort(reason);
        },
      };
    } catch (error) {
      deadline[Symbol.dispose]();
      throw this.#explain(error, request, deadline);
    }
  }

  /** The connection after the switch. The deadline counts until then. */
  async upgrade(request: HttpRequest & { readonly protocol: string }): Promise<Duplex> {
    using deadline = new Deadline(request.signal, request.timeoutMs);
    try {
      const { signal } = deadline;
      const credential = await this.#credentials.current({ signal });
      const headers = { ...credential.headers, ...request.headers, "user-agent": this.#options.userAgent };
      const { socket } = await this.#connect(credential.tls).streams.upgrade({
        method: request.method,
        path: this.#prefix + request.path,
        protocol: request.protocol,
        headers: headers as Record<string, string>,
        signal,
      });
      return socket;
    } catch (error) {
      throw this.#explain(error, request, deadline);
    }
  }

  async *#chunks(
    body: AsyncIterable<Buffer>,
    request: HttpRequest,
    deadline: Deadline,
  ): AsyncGenerator<Buffer> {
    try {
      yield* body;
    } catch (error) {
      throw this.#explain(error, request, deadline);
    } finally {
      deadline[Symbol.dispose]();
    }
  }

  /** Sends with the current credential and, when that is refused and there is a newer one, with that. */
  async #dispatch(
    request: HttpRequest,
    { deadline, kind }: { readonly deadline: Deadline; readonly kind: "calls" | "streams" },
  ): Promise<Dispatcher.ResponseData> {
    const { signal } = deadline;
    const credential = await this.#credentials.current({ signal });
    const first = await this.#request(request, { credential, signal, kind });
    if (first.statusCode !== 401) return first;
    await first.body.dump();
    if (await this.#credentials.renew(credential, { signal })) {
      const renewed = await this.#credentials.current({ signal });
      const second = await this.#request(request, { credential: renewed, signal, kind });
      if (second.statusCode !== 401) return second;
      await second.body.dump();
    }
    throw new Fault("unauthorized", this.#credentials.explainRefusal(credential));
  }

  #request(
    request: HttpRequest,
    how: {
      readonly credential: Credential;
      readonly signal: AbortSignal;
      readonly kind: "calls" | "streams";
    },
  ): Promise<Dispatcher.ResponseData> {
    const { credential, signal, kind } = how;
    const headers = { ...credential.headers, ...request.headers, "user-agent": this.#options.userAgent };
    return this.#connect(credential.tls)[kind].request({
      origin: this.#origin,
      method: request.method,
      path: this.#prefix + request.path,
      headers: headers as Record<string, string | string[]>,
      body: request.body ?? null,
      // By default undici closes the connection after a DELETE that has a body: the next request pays for a TLS handshake.
      reset: false,
      signal,
    });
  }

  /** New TLS material means new connections; running requests and streams finish on the old ones. */
  #connect(tls: TlsMaterial): Connections {
    if (this.#closed) throw new Fault("unavailable", "the client is closed");
    const before = this.#connections;
    if (before?.tls === tls) return before;
    if (before) this.#retire(before);
    this.#connections = {
      tls,
      calls: this.#newDispatcher(tls, this.#options.maxConnections),
      streams: this.#newDispatcher(tls, null),
    };
    return this.#connections;
  }

  /** A connection went silent: the others that lie idle may be as dead, so the next request takes a new one. */
  #distrust(): void {
    const now = performance.now();
    if (!this.#connections || this.#closed || now - this.#distrustedAt < distrustEveryMs) return;
    this.#distrustedAt = now;
    const { tls } = this.#connections;
    this.#retire(this.#connections);
    this.#connections = undefined;
    this.#connect(tls);
  }

  #retire(connections: Connections): void {
    this.#retired.add(connections);
    const forget = () => void this.#retired.delete(connections);
    Promise.all([connections.calls.close(), connections.streams.close()]).then(forget, forget);
  }

  #newDispatcher(tls: TlsMaterial, maxConnections: number | null): Dispatcher {
    const { cluster } = this.#target;
    const { rejectUnauthorized, context: secureContext, servername } = tls;
    const secure = { rejectUnauthorized, secureContext, ...(servername && { servername }) };
    const common = {
      connections: maxConnections,
      allowH2,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: 0, // the deadline of each request counts instead
      bodyTimeout: 0,
      maxResponseSize: maxConnections === null ? -1 : this.#options.maxAnswerBytes,
    };
    if (cluster.proxyUrl)
      return new ProxyAgent({
        ...common,
        uri: checkedProxy(cluster.proxyUrl, cluster.name),
        requestTls: secure,
      });
    return new Pool(this.#origin, {
      ...common,
      connect: { ...secure, timeout: connectTimeoutMs, keepAlive: true, keepAliveInitialDelay: 30_000 },
    });
  }

  /** The caller's abort reason as it is, a Fault as it is, everything else as "could not ask". */
  #explain(error: unknown, request: HttpRequest, deadline: Deadline): Error {
    if (request.signal.aborted) return getReason(request.signal);
    if (deadline.expired) {
      this.#distrust();
      return new Fault(
        "timeout",
        `${request.method} ${request.path}: no answer from ${this.names.server} within ${request.timeoutMs} ms`,
      );
    }
    return error instanceof Fault ? error : explainConnection(error, this.names);
  }

  get names(): TargetNames {
    const { cluster, source } = this.#target;
    return {
      server: cluster.server,
      source,
      caField: this.#credentials.caField,
      serverField: `clusters[${cluster.name}].cluster.server`,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const all = [...this.#retired, ...(this.#connections ? [this.#connections] : [])];
    this.#connections = undefined;
    this.#retired.clear();
    const closed = new Fault("unavailable", "the client was closed");
    await Promise.all(all.flatMap((each) => [each.calls.destroy(closed), each.streams.destroy(closed)]));
  }
}

function checkedProxy(proxyUrl: string, cluster: string): string {
  const protocol = URL.parse(proxyUrl)?.protocol;
  if (protocol === "http:" || protocol === "https:") return proxyUrl;
  throw new Fault(
    "notSupported",
    `clusters[${cluster}].cluster.proxy-url: only http:// and https:// proxies work here`,
  );
}

function getReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new DOMException("aborted", "AbortError");
}
