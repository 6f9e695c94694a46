/** HTTP/1.1, and WebSocket that came over HTTP/1.1, to a port of a guest. The request goes on as it came. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { sleep, type Abortable } from "@cocoon/core";
import type { PodConnection } from "../cluster/pod-access.ts";
import { forwardRequest, forwardUpgrade, hasBody, type UpgradeEnds } from "../http/forward.ts";
import { portClosed } from "./data-plane.ts";
import { withoutPortCookies } from "./port-cookie.ts";

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
      if (hasBody(request) || attempt >= attempts || !(await sleep(retryMs, target))) throw portClosed();
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
    return forwardRequest(request, stream, readHeaders(request));
  }

  async upgrade(
    request: IncomingMessage,
    ends: UpgradeEnds,
    { connect, signal }: ProxyTarget,
  ): Promise<void> {
    const { stream, release } = await connect({ signal });
    const close = forwardUpgrade(request, ends, {
      stream,
      headers: rawUpgradeHeaders(request),
      onClose: () => release(true),
    });
    signal.addEventListener("abort", close, { once: true });
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
  const { cookie, ...others } = Object.fromEntries(kept);
  const cookies = typeof cookie === "string" ? withoutPortCookies(cookie) : undefined;
  return {
    ...others,
    ...(cookies === undefined ? {} : { cookie: cookies }),
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
    const value = rawHeaders[index + 1] ?? "";
    const sent = name.toLowerCase() === "cookie" ? withoutPortCookies(value) : value;
    if (sent !== undefined) text += `${name}: ${sent}\r\n`;
  }
  return text;
}
