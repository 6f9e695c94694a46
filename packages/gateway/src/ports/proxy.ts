/** HTTP/1.1, and WebSocket that came over HTTP/1.1, to a port of a guest. The request goes on as it came. */
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { nodeHttp, sleep, type Abortable } from "@cocoon/core";
import type { PodConnection } from "../cluster/pod-access.ts";
import { portClosed } from "./data-plane.ts";

/** Tokens for the gateway are not the guest's business. */
const dropped = new Set([
  "e2b-traffic-access-token",
  "x-access-token",
  "e2b-sandbox-id",
  "e2b-sandbox-port",
  "cocoon-token",
  "cocoon-machine",
  "cocoon-port",
]);
/** Of one connection, not of the request. */
const hopByHop = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "transfer-encoding",
  "upgrade",
]);
const attempts = 5;
const retryMs = 200;

export interface ProxyTarget extends Abortable {
  /** A connection to the port of the guest. */
  readonly connect: (options: Abortable) => Promise<PodConnection>;
  /** The guest has begun to answer. */
  readonly onAnswer?: () => void;
}

export class PortProxy {
  async serve(request: IncomingMessage, response: ServerResponse, target: ProxyTarget): Promise<void> {
    // A body can be sent only once: then the first refusal is the answer.
    const hasBody =
      request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#send(request, target);
      if (answer) {
        target.onAnswer?.();
        const { statusCode = 502, statusMessage } = answer;
        if (request.httpVersionMajor < 2) response.statusMessage = statusMessage ?? "";
        response.writeHead(statusCode, readAnswerHeaders(answer));
        await pipeline(answer, response);
        return;
      }
      if (hasBody || attempt >= attempts || !(await sleep(retryMs, target))) throw portClosed();
    }
  }

  /** Undefined when the guest closed the connection without an answer. */
  async #send(
    request: IncomingMessage,
    { connect, signal }: ProxyTarget,
  ): Promise<IncomingMessage | undefined> {
    const { stream, release } = await connect({ signal });
    const cut = () => stream.destroy();
    signal.addEventListener("abort", cut, { once: true });
    stream.once("close", () => {
      signal.removeEventListener("abort", cut);
      release(true);
    });
    const forwarded = nodeHttp.request({
      createConnection: () => stream,
      method: request.method ?? "GET",
      path: request.url ?? "/",
      headers: readHeaders(request),
      setHost: false,
    });
    request.pipe(forwarded);
    return awaitAnswer(forwarded);
  }

  /** Bytes both ways from the first on: whatever protocol the two agree on. */
  async upgrade(
    request: IncomingMessage,
    { socket, head }: { readonly socket: Duplex; readonly head: Buffer },
    { connect, signal }: ProxyTarget,
  ): Promise<void> {
    const { stream, release } = await connect({ signal });
    const close = () => {
      stream.destroy();
      socket.destroy();
      release(true);
    };
    signal.addEventListener("abort", close, { once: true });
    for (const end of [stream, socket]) end.once("close", close).on("error", close);
    stream.write(
      `${request.method ?? "GET"} ${request.url ?? "/"} HTTP/1.1\r\n${rawUpgradeHeaders(request)}\r\n`,
    );
    if (head.length > 0) stream.write(head);
    stream.pipe(socket);
    socket.pipe(stream);
  }
}

/** Pseudo headers of HTTP/2 begin with ":". */
function isDropped(name: string): boolean {
  return dropped.has(name) || hopByHop.has(name) || name.startsWith(":");
}

/** Of the request to the guest. */
export function readHeaders({ headers }: IncomingMessage): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(
    (entry): entry is [string, string | string[]] => entry[1] !== undefined && !isDropped(entry[0]),
  );
  return {
    ...Object.fromEntries(kept),
    connection: "close",
    ...(headers["transfer-encoding"] ? { "transfer-encoding": "chunked" } : {}),
  };
}

/** As they came, repeated ones too. */
function readAnswerHeaders({ headersDistinct }: IncomingMessage): Record<string, string[]> {
  const kept = Object.entries(headersDistinct).filter(
    (entry): entry is [string, string[]] => entry[1] !== undefined && !hopByHop.has(entry[0]),
  );
  return Object.fromEntries(kept);
}

function rawUpgradeHeaders({ rawHeaders }: IncomingMessage): string {
  const kept = new Set(["connection", "upgrade"]);
  let text = "";
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (isDropped(name.toLowerCase()) && !kept.has(name.toLowerCase())) continue;
    text += `${name}: ${rawHeaders[index + 1] ?? ""}\r\n`;
  }
  return text;
}

function awaitAnswer(forwarded: ClientRequest): Promise<IncomingMessage | undefined> {
  return new Promise((resolve) => {
    forwarded.once("response", resolve);
    forwarded.once("error", () => resolve(undefined));
    forwarded.once("close", () => resolve(undefined));
  });
}
