/** One request and its answer, with what every handler needs: the query, a bounded body, errors in the right shape. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, type Logger } from "@cocoon/core";
import { ociFault } from "../oci-fault.ts";
import type { Caller } from "../auth/access.ts";
import { offerDirectReceipt } from "./direct-receipt.ts";

export interface ExchangeOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly log: Logger;
  /** The client waits for a go-ahead before it sends the body. */
  readonly expectsContinue: boolean;
}

/** A body of this length is worth a connection of its own. */
const directFromBytes = 8 * 1024 * 1024;

export type Headers = Readonly<Record<string, string | number>>;

export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly log: Logger;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly startedMs = performance.now();
  /** The address on the other end of the connection. */
  readonly remote: string;
  /** Aborts when the client is gone before it was answered. */
  readonly signal: AbortSignal;
  /** Who asks; set once, before the handler runs. */
  caller: Caller | undefined;
  #bodyWanted: boolean;

  constructor({ request, response, log, expectsContinue }: ExchangeOptions) {
    this.request = request;
    this.response = response;
    this.log = log;
    this.remote = request.socket.remoteAddress ?? "";
    this.method = request.method ?? "GET";
    const target = request.url ?? "/";
    const mark = target.indexOf("?");
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = new URLSearchParams(mark === -1 ? "" : target.slice(mark + 1));
    this.#bodyWanted = !expectsContinue;
    const controller = new AbortController();
    this.signal = controller.signal;
    response.once("close", () => {
      if (!response.writableFinished) controller.abort(new Fault("badRequest", "the client went away"));
    });
  }

  /** A request header that may come once. */
  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  /** The announced length of the body; undefined when it comes in chunks. */
  get contentLength(): number | undefined {
    const text = this.header("content-length");
    if (text !== undefined) return Number(text);
    return this.request.headers["transfer-encoding"] === undefined ? 0 : undefined;
  }

  /** The body as a stream. Only from here on a client that waits for "100 Continue" sends it. */
  body(): IncomingMessage {
    if (!this.#bodyWanted) {
      this.#bodyWanted = true;
      this.response.writeContinue();
    }
    return this.request;
  }

  /** The body for whoever can also take it directly, if it is long. */
  bulkBody(): IncomingMessage {
    const bodyBytes = this.contentLength ?? 0;
    if (bodyBytes >= directFromBytes) offerDirectReceipt(this, bodyBytes);
    return this.body();
  }

  /** The whole body, if it is not longer than allowed. */
  readBody(maxBytes: number): Promise<Buffer> {
    const tooLarge = () =>
      ociFault("SIZE_INVALID", `the body is larger than the limit of ${maxBytes} bytes`, { as: "tooLarge" });
    if ((this.contentLength ?? 0) > maxBytes) return Promise.reject(tooLarge());
    const body = this.body();
    const chunks: Buffer[] = [];
    let total = 0;
    return new Promise((resolve, reject) => {
      body.on("data", (chunk: Buffer) => {
        total += chunk.length;
        if (total > maxBytes) {
          body.removeAllListeners("data");
          reject(tooLarge());
        } else chunks.push(chunk);
      });
      body.on("end", () => resolve(joined(chunks, total)));
      body.on("error", () => reject(clientGone()));
      body.on("close", () => reject(clientGone()));
    });
  }

  send(status: number, headers: Headers, body?: string | Buffer): void {
    const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    // A HEAD answer announces the length that GET would have, given by the handler, and has no body.
    this.response.writeHead(status, {
      ...(hasNoBody(status) ? {} : { "content-length": 0 }),
      ...length,
      ...headers,
    });
    this.response.end(this.method === "HEAD" ? undefined : body);
  }

  json(status: number, value: unknown, headers: Headers = {}): void {
    this.send(status, { "content-type": "application/json", ...headers }, JSON.stringify(value));
  }
}

/** The pieces are used up: left to the garbage collector, many small bodies make it run all the time. */
function joined(chunks: readonly Buffer[], total: number): Buffer {
  if (chunks.length === 1 && chunks[0]) return chunks[0];
  const whole = Buffer.concat(chunks, total);
  for (const { buffer, byteLength } of chunks)
    if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
  return whole;
}

function hasNoBody(status: number): boolean {
  return status === 204 || status === 304;
}

function clientGone(): Fault {
  return new Fault("badRequest", "the client went away before the end of the body");
}
