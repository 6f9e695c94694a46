/** HTTP/1.1 and WebSocket to a port of a guest. The request goes on as it came. */
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { nodeHttp, sleep, type Abortable } from "@cocoon/core";
import type { Guests } from "../sandboxes/guests.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { portClosed } from "./data-plane.ts";

/** Tokens for the gateway are not the guest's business. */
const dropped = new Set([
  "e2b-traffic-access-token",
  "x-access-token",
  "e2b-sandbox-id",
  "e2b-sandbox-port",
  "connection",
  "upgrade",
  "keep-alive",
  "transfer-encoding",
]);
const attempts = 5;
const retryMs = 200;

export interface ProxyTarget extends Abortable {
  readonly sandbox: Sandbox;
  readonly port: number;
}

export class PortProxy {
  readonly #guests: Guests;

  constructor(guests: Guests) {
    this.#guests = guests;
  }

  async serve(request: IncomingMessage, response: ServerResponse, target: ProxyTarget): Promise<void> {
    // A body can be sent only once: then the first refusal is the answer.
    const hasBody =
      request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#send(request, target);
      if (answer) {
        response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders);
        await pipeline(answer, response);
        return;
      }
      if (hasBody || attempt >= attempts || !(await sleep(retryMs, target))) throw portClosed();
    }
  }

  /** Undefined when the guest closed the connection without an answer. */
  async #send(
    request: IncomingMessage,
    { sandbox, port, signal }: ProxyTarget,
  ): Promise<IncomingMessage | undefined> {
    const { stream, release } = await this.#guests.connect(sandbox, { port, signal });
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
    target: ProxyTarget,
  ): Promise<void> {
    const { sandbox, port, signal } = target;
    const { stream, release } = await this.#guests.connect(sandbox, { port, signal });
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

function readHeaders({ headers }: IncomingMessage): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(
    (entry): entry is [string, string | string[]] => entry[1] !== undefined && !dropped.has(entry[0]),
  );
  return {
    ...Object.fromEntries(kept),
    connection: "close",
    ...(headers["transfer-encoding"] ? { "transfer-encoding": "chunked" } : {}),
  };
}

function rawUpgradeHeaders({ rawHeaders }: IncomingMessage): string {
  const kept = new Set(["connection", "upgrade"]);
  let text = "";
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    if (dropped.has(name.toLowerCase()) && !kept.has(name.toLowerCase())) continue;
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
