/**
 * HTTP to one registry: connections, deadlines, proof of identity, redirects, and another try where it is safe.
 *
 * Safe means: the request may be repeated without harm (reads, content-addressed writes), or it surely had no
 * effect (no connection was made, or the server said that it did not take the request). Everything else goes back
 * to the caller, who can look before trying again.
 */
import { Backoff, Fault, isFault, sleep, systemCode, toFault, type Abortable } from "@cocoon/core";
import type { LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { Agent } from "undici";
import type { RegistryAddress } from "./address.ts";
import { Authorizer } from "./authorizer.ts";
import type { CredentialSource } from "./credentials.ts";
import { getHeader, retryAfter, type RequestBody, type WireRequest, type WireResponse } from "./wire.ts";

export interface TransportOptions {
  readonly address: RegistryAddress;
  readonly credentials: CredentialSource;
  /** PEM text of certificate authorities to trust besides the system's. */
  readonly ca?: string;
  /** Open connections at most. */
  readonly connections?: number;
  readonly retry?: RetryOptions;
  /** Time until the first byte of an answer to a request without a body. */
  readonly answerTimeoutMs?: number;
  /** A connection on which nothing arrives for this long is dead. */
  readonly idleTimeoutMs?: number;
  /** For registries that are not of the configuration: what may be connected to. Absent: everything. */
  readonly guard?: ConnectionGuard;
}

/** Decides what may be connected to: asked for every request, after each redirect, and for what a name resolves to. */
export interface ConnectionGuard {
  /** Throws for a host that is refused by its name or literal address. */
  readonly assertAllowed: (url: URL) => void;
  /** Fails for names that resolve to refused addresses. */
  readonly lookup: LookupFunction;
}

export interface RetryOptions {
  /** Tries in total, the first included. */
  readonly attempts?: number;
  readonly baseMs?: number;
  readonly maxMs?: number;
}

const defaults = {
  connections: 32,
  connectTimeoutMs: 5_000,
  // A registry that did not answer for a while must not delay a wake for long after it is back: a request on a dead
  // connection ends soon, and its retry gets a new connection.
  idleTimeoutMs: 15_000,
  answerTimeoutMs: 15_000,
  /** A registry that moves gigabytes to an object store before it answers takes its time. */
  commitTimeoutMs: 10 * 60_000,
  attempts: 5,
  baseMs: 200,
  maxMs: 10_000,
  redirects: 5,
  longestRetryAfterMs: 60_000,
};

const refusedStatuses = new Set([429, 503]);
const transientStatuses = new Set([408, 429, 500, 502, 503, 504]);
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
const neverConnected = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

export class Transport implements AsyncDisposable {
  readonly #agent: Agent;
  readonly #origin: string;
  readonly #answerTimeoutMs: number;
  readonly #guard: ConnectionGuard | undefined;
  readonly #authorizer: Authorizer;
  /** How often and how fast to try again; transfers that go on where they broke follow it too. */
  readonly retry: Required<RetryOptions>;

  constructor(options: TransportOptions) {
    const { attempts, baseMs, maxMs } = { ...defaults, ...options.retry };
    this.retry = { attempts, baseMs, maxMs };
    this.#origin = options.address.origin;
    this.#answerTimeoutMs = options.answerTimeoutMs ?? defaults.answerTimeoutMs;
    this.#guard = options.guard;
    this.#agent = new Agent({
      connections: options.connections ?? defaults.connections,
      pipelining: 1,
      allowH2: false,
      bodyTimeout: options.idleTimeoutMs ?? defaults.idleTimeoutMs,
      connect: {
        timeout: defaults.connectTimeoutMs,
        minVersion: "TLSv1.2",
        ...(options.guard ? { lookup: options.guard.lookup } : {}),
        // Made once: parsing all authorities for each connection took more CPU time than the requests on it.
        ...(options.ca === undefined ? {} : { secureContext: trusting(options.ca) }),
      },
    });
    this.#authorizer = new Authorizer({
      address: options.address,
      credentials: options.credentials,
      send: (request, { signal }) => this.#repeat(request, signal, (each) => this.#once(each, signal)),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  /** The answer, whatever its status; a Fault when there is none. The caller consumes or dumps the body. */
  send(request: WireRequest, { signal }: Abortable): Promise<WireResponse> {
    return this.#repeat(request, signal, (each) => this.#authorized(each, signal));
  }

  async #repeat(
    request: WireRequest,
    signal: AbortSignal,
    attempt: (request: WireRequest) => Promise<WireResponse>,
  ): Promise<WireResponse> {
    const backoff = new Backoff(this.retry);
    for (;;) {
      const last = backoff.failures + 1 >= this.retry.attempts;
      let waitMs: number;
      try {
        const response = await attempt(request);
        if (last || !mayRepeatAnswer(request, response)) return response;
        waitMs = Math.max(
          backoff.nextMs(),
          Math.min(retryAfter(response) ?? 0, defaults.longestRetryAfterMs),
        );
        await response.body.dump();
      } catch (error) {
        if (signal.aborted || last || !mayRepeatFailure(request, error))
          throw translate(request, error, signal);
        waitMs = backoff.nextMs();
      }
      if (!(await sleep(waitMs, { signal }))) throw translate(request, signal.reason, signal);
    }
  }

  async #authorized(request: WireRequest, signal: AbortSignal): Promise<WireResponse> {
    // An upload may continue on another host: it gets what the location holds, not our credentials.
    if (request.url.origin !== this.#origin) return this.#once(withAuthorization(request, undefined), signal);
    const header = await this.#authorizer.header(request.scopes, { signal });
    const response = await this.#redirected(withAuthorization(request, header), signal);
    if (response.status !== 401) return response;
    const refused = { response, scopes: request.scopes, header };
    const proof = await this.#authorizer.challenged(refused, { signal });
    if (proof === undefined) return response;
    await response.body.dump();
    return this.#redirected(withAuthorization(request, proof), signal);
  }

  /** Blobs may live elsewhere. Another host gets no credentials, and a secure request stays secure. */
  async #redirected(request: WireRequest, signal: AbortSignal): Promise<WireResponse> {
    let current = request;
    for (let hops = 0; ; hops += 1) {
      const response = await this.#once(current, signal);
      if (!redirectStatuses.has(response.status) || !["GET", "HEAD"].includes(request.method))
        return response;
      const target = URL.parse(getHeader(response, "location") ?? "", current.url);
      await response.body.dump();
      if (!target || hops >= defaults.redirects)
        throw new Fault("unavailable", `${describe(request)}: too many or unreadable redirects`);
      if (current.url.protocol === "https:" && target.protocol !== "https:")
        throw new Fault("forbidden", `${describe(request)}: redirected from https to ${target.protocol}`);
      current =
        target.origin === current.url.origin
          ? { ...current, url: target }
          : { ...withAuthorization(current, undefined), url: target };
    }
  }

  async #once(request: WireRequest, signal: AbortSignal): Promise<WireResponse> {
    this.#guard?.assertAllowed(request.url);
    const { origin, pathname, search } = request.url;
    const response = await this.#agent.request({
      origin,
      path: `${pathname}${search}`,
      method: request.method,
      headers: { "user-agent": "cocoon", ...request.headers, ...buildLengthHeader(request.body) },
      body: toStream(request.body),
      headersTimeout: request.body ? defaults.commitTimeoutMs : this.#answerTimeoutMs,
      // By default undici closes the connection after a HEAD: each lookup of a tag would pay for a TLS handshake.
      reset: false,
      signal,
    });
    return {
      status: response.statusCode,
      headers: response.headers,
      url: request.url,
      body: response.body,
    };
  }
}

function trusting(ca: string): SecureContext {
  return createSecureContext({ minVersion: "TLSv1.2", ca: [...getCACertificates("default"), ca] });
}

function withAuthorization(request: WireRequest, header: string | undefined): WireRequest {
  const { authorization: _dropped, ...others } = request.headers ?? {};
  return { ...request, headers: header === undefined ? others : { ...others, authorization: header } };
}

function buildLengthHeader(body: RequestBody | undefined): Record<string, string> {
  if (body === undefined) return {};
  return { "content-length": String(body instanceof Uint8Array ? body.length : body.size) };
}

function toStream(body: RequestBody | undefined): Uint8Array | Readable | null {
  if (body === undefined) return null;
  return body instanceof Uint8Array ? body : Readable.from(body.open(), { objectMode: false });
}

function mayRepeatAnswer(request: WireRequest, response: WireResponse): boolean {
  if (refusedStatuses.has(response.status)) return true;
  return request.repeatable && transientStatuses.has(response.status);
}

function mayRepeatFailure(request: WireRequest, error: unknown): boolean {
  if (isFault(error) && !error.traits.retry) return false;
  return request.repeatable || neverConnected.has(systemCode(error) ?? "");
}

/** Every failure to get an answer means "could not ask", never "not there". */
function translate(request: WireRequest, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted && !(signal.reason instanceof Error && signal.reason.name === "TimeoutError"))
    return signal.reason;
  if (isFault(error)) return error;
  const fault = toFault(error, describe(request));
  const code =
    fault.code === "timeout" || /TIMEOUT/.test(systemCode(error) ?? "") ? "timeout" : "unavailable";
  return new Fault(code, fault.message, { cause: error });
}

/** For messages: no query, which may hold signatures of a storage service. */
export function describe(request: Pick<WireRequest, "method" | "url">): string {
  return `${request.method} ${request.url.origin}${request.url.pathname}`;
}
