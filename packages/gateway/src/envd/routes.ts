/** The envd API of one sandbox: what the SDKs send to port 49983. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isFault } from "@cocoon/core";
import { ApiError, sendEmpty, sendError, sendJson, toApiError } from "../http/answer.ts";
import { cutResponse } from "../http/http2.ts";
import type { Guests } from "../sandboxes/guests.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { Tokens } from "../sandboxes/tokens.ts";
import {
  ConnectError,
  readEnvelopes,
  readKeepaliveMs,
  readTimeoutMs,
  readUnary,
  sendUnary,
  sendUnaryError,
  StreamAnswer,
  toConnectError,
} from "./connect-codec.ts";
import { downloadFile, toFileError, uploadFiles } from "./files.ts";
import { filesystemMethods, watchDirectory, type ServiceCall } from "./filesystem.ts";
import { readGuestMetrics } from "./guest-metrics.ts";
import { connectProcess, processMethods, startProcess, streamInput } from "./process.ts";
import { assertSignature } from "./signature.ts";

export interface EnvdOptions {
  readonly guests: Guests;
  readonly tokens: Tokens;
  readonly maxUploadBytes: number;
  readonly now: () => Date;
}

/** Calls that only E2B's own parts make, whatever the path looks like before it is decoded. */
const internal = new Set(["/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"]);

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly sandbox: Sandbox;
  readonly path: string;
  readonly query: URLSearchParams;
}

export class EnvdRoutes {
  readonly #options: EnvdOptions;

  constructor(options: EnvdOptions) {
    this.#options = options;
  }

  /** The sandbox runs. Answers whatever happens. */
  async serve(request: IncomingMessage, response: ServerResponse, sandbox: Sandbox): Promise<void> {
    const [rawPath = "/", rawQuery = ""] = (request.url ?? "/").split("?", 2);
    const path = decodeURIComponent(rawPath).replace(/\/{2,}/g, "/");
    const exchange = { request, response, sandbox, path, query: new URLSearchParams(rawQuery) };
    const stream = this.#options.guests.track(sandbox);
    const left = () => stream.abort(new Error("the client left"));
    response.once("close", left);
    const method = /^\/(process\.Process|filesystem\.Filesystem)\/([A-Za-z]+)$/.exec(path);
    try {
      if (method) await this.#serveRpc(exchange, `${method[1]}/${method[2]}`, stream.signal);
      else await this.#serveHttp(exchange, stream.signal);
    } catch (error) {
      if (response.writableEnded) return;
      sendError(response, toApiError(toFileError(error)));
    } finally {
      stream.abort();
    }
  }

  async #serveHttp(
    { request, response, sandbox, path, query }: Exchange,
    signal: AbortSignal,
  ): Promise<void> {
    if (internal.has(path)) throw new ApiError(404, "not found");
    if (path === "/health") return this.#answerHealth(response, sandbox, signal);
    const guest = this.#options.guests.open(sandbox);
    if (path === "/files" && (request.method === "GET" || request.method === "POST")) {
      this.#authorizeFile(request, sandbox, query);
      const call = { guest, query, signal, maxBytes: this.#options.maxUploadBytes };
      return request.method === "GET" ? downloadFile(response, call) : uploadFiles(request, response, call);
    }
    this.#authorize(request, sandbox);
    if (path === "/metrics") return sendJson(response, 200, await readGuestMetrics(guest, { signal }));
    if (path === "/envs") return sendJson(response, 200, sandbox.spec.env);
    throw new ApiError(
      path === "/files" ? 405 : path === "/files/compose" ? 501 : 404,
      `${request.method ?? ""} ${path} is not offered`,
    );
  }

  /** Clients take 502 for "does not run": so it is when the guest cannot be reached, for example because its node is lost. */
  async #answerHealth(response: ServerResponse, sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    if (await this.#options.guests.answers(sandbox, { signal })) return sendEmpty(response, 204);
    const body = { sandboxId: sandbox.id, message: "The sandbox was not found", code: 502 };
    sendJson(response, 502, body);
  }

  #authorize(request: IncomingMessage, sandbox: Sandbox): void {
    if (!this.#hasToken(request, sandbox))
      throw new ApiError(401, "the header X-Access-Token is missing or wrong");
  }

  #hasToken(request: IncomingMessage, sandbox: Sandbox): boolean {
    if (!sandbox.spec.secure) return true;
    return this.#options.tokens.matches("envd", sandbox, String(request.headers["x-access-token"] ?? ""));
  }

  #authorizeFile(request: IncomingMessage, sandbox: Sandbox, query: URLSearchParams): void {
    if (!sandbox.spec.secure) return;
    if (request.headers["x-access-token"] !== undefined) return this.#authorize(request, sandbox);
    const signature = query.get("signature");
    if (signature === null) throw new ApiError(401, "missing signature query parameter");
    const signed = {
      path: query.get("path") ?? "",
      operation: request.method === "GET" ? ("read" as const) : ("write" as const),
      username: query.get("username") ?? "",
      signature,
      expiration: query.get("signature_expiration") ?? undefined,
    };
    assertSignature(signed, this.#options.tokens.compute("envd", sandbox), this.#options.now());
  }

  async #serveRpc(exchange: Exchange, method: string, signal: AbortSignal): Promise<void> {
    const { request, response, sandbox } = exchange;
    if (request.method !== "POST") return sendEmpty(response, 405);
    const type = (request.headers["content-type"] ?? "").split(";", 1)[0]?.trim();
    const call: ServiceCall = {
      guest: this.#options.guests.open(sandbox),
      user: readUser(request),
      directory: sandbox.spec.directory ?? "",
      signal,
    };
    const isStream = method in streams || method === inputStream;
    if (type !== (isStream ? "application/connect+json" : "application/json"))
      return sendEmpty(response, 415);
    if (isStream) return this.#serveStream(exchange, method, call);
    try {
      this.#assertRpc(request, sandbox);
      const handler = unaries[method];
      if (!handler) throw new ConnectError("unimplemented", `${method} is not offered`);
      sendUnary(response, await handler(await readUnary(request), call));
    } catch (error) {
      if (signal.aborted) cutResponse(response);
      else sendUnaryError(response, toConnectError(error));
    }
  }

  #assertRpc(request: IncomingMessage, sandbox: Sandbox): void {
    if (!this.#hasToken(request, sandbox))
      throw new ConnectError("unauthenticated", "the header X-Access-Token is missing or wrong");
  }

  async #serveStream(exchange: Exchange, method: string, call: ServiceCall): Promise<void> {
    const { request, response } = exchange;
    const keepalive = method.startsWith("process") ? { event: { keepalive: {} } } : { keepalive: {} };
    const open = () => new StreamAnswer(response, readKeepaliveMs(request), keepalive);
    let answer: StreamAnswer | undefined;
    try {
      this.#assertRpc(request, exchange.sandbox);
      const messages = readEnvelopes(request as AsyncIterable<Buffer>);
      if (method === inputStream) {
        const message = await streamInput(messages, call);
        answer = open();
        await answer.send(message);
      } else {
        // Before the answer begins: Python's client stops sending then.
        const first = await messages.next();
        if (first.done) throw new ConnectError("invalid_argument", "the request has no message");
        answer = open();
        await streams[method]?.(first.value, answer, { ...call, timeoutMs: readTimeoutMs(request) });
      }
      answer.end();
    } catch (error) {
      // A guest that is lost in the middle is a cut stream: clients then look at /health.
      if (call.signal.aborted || isFault(error, "unavailable")) (answer ?? open()).cut();
      else (answer ?? open()).end(toConnectError(error));
    }
  }
}

type Unary = (message: unknown, call: ServiceCall) => Promise<unknown>;
type Stream = (
  message: unknown,
  answer: StreamAnswer,
  call: ServiceCall & { readonly timeoutMs: number | undefined },
) => Promise<void>;

const unaries: Readonly<Record<string, Unary>> = Object.fromEntries([
  ...Object.entries(processMethods).map(([name, handler]) => [`process.Process/${name}`, handler] as const),
  ...Object.entries(filesystemMethods).map(
    ([name, handler]) => [`filesystem.Filesystem/${name}`, handler] as const,
  ),
]);

const inputStream = "process.Process/StreamInput";
const streams: Readonly<Record<string, Stream>> = {
  "process.Process/Start": startProcess,
  "process.Process/Connect": connectProcess,
  "filesystem.Filesystem/WatchDir": watchDirectory,
};

/** `Authorization: Basic {user}:` names the user in the guest; empty: the default one. */
function readUser({ headers }: IncomingMessage): string {
  const match = /^Basic\s+([A-Za-z0-9+/=]+)$/i.exec(headers.authorization ?? "");
  return (
    Buffer.from(match?.[1] ?? "", "base64")
      .toString("utf8")
      .split(":", 1)[0] ?? ""
  );
}
