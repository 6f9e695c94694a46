/** One request and its answer, with what every handler needs: the query, a bounded body, errors in the right shape. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, type Logger } from "@cocoon/core";
import { ociFault } from "../oci-fault.ts";
import type { Caller } from "../auth/access.ts";
import type { BodyMemory } from "./body-memory.ts";

interface ExchangeOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly log: Logger;
  /** The client waits for "100 Continue" before it sends the body. */
  readonly expectsContinue: boolean;
  /** The client's address; behind a trusted proxy not that of the connection. */
  readonly remote: string;
  readonly memory: BodyMemory;
  readonly allowStall?: (stallMs: number) => void;
}

export type Headers = Readonly<Record<string, string | number>>;

export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly log: Logger;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly startedMs = performance.now();
  readonly remote: string;
  /** Aborts when the connection closes before the answer is complete. */
  readonly signal: AbortSignal;
  caller: Caller | undefined;
  /** How long the connection may be without progress; set for callers that are known. */
  readonly allowStall: (stallMs: number) => void;
  readonly memory: BodyMemory;
  #bodyWanted: boolean;

  constructor({ request, response, log, expectsContinue, remote, memory, ...rest }: ExchangeOptions) {
    this.request = request;
    this.response = response;
    this.log = log;
    this.remote = remote;
    this.memory = memory;
    this.allowStall = rest.allowStall ?? (() => undefined);
    this.method = request.method ?? "GET";
    const target = request.url ?? "/";
    const mark = target.indexOf("?");
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = new URLSearchParams(mark === -1 ? "" : target.slice(mark + 1));
    this.#bodyWanted = !expectsContinue;
    const controller = new AbortController();
    this.signal = controller.signal;
    response.once("close", () => {
      if (!response.writableFinished)
        controller.abort(new Fault("badRequest", "the client closed the connection"));
    });
  }

  get callerId(): string {
    return this.caller === undefined || this.caller.anonymous ? `address:${this.remote}` : this.caller.id;
  }

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

  /** The whole body; throws 413 when it is longer than allowed. */
  async readBody(maxBytes: number): Promise<Buffer> {
    const tooLarge = () =>
      ociFault("SIZE_INVALID", `the body is larger than the limit of ${maxBytes} bytes`, { as: "tooLarge" });
    if ((this.contentLength ?? 0) > maxBytes) throw tooLarge();
    const { memory } = this;
    memory.assertRoom(this.contentLength ?? 0);
    const body = this.body();
    const chunks: Buffer[] = [];
    let total = 0;
    const read = new Promise<Buffer>((resolve, reject) => {
      body.on("data", (chunk: Buffer) => {
        total += chunk.length;
        memory.add(chunk.length);
        if (total > maxBytes) {
          body.removeAllListeners("data");
          reject(tooLarge());
        } else chunks.push(chunk);
      });
      body.on("end", () => resolve(joined(chunks, total)));
      body.on("error", () => reject(clientGone()));
      body.on("close", () => reject(clientGone()));
    });
    return read.finally(() => memory.remove(total));
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

  /** Like `send`, for a body that a slow reader would keep in memory. */
  sendLarge(status: number, headers: Headers, body: Buffer): void {
    const { memory, response } = this;
    memory.assertRoom(body.length);
    memory.add(body.length);
    response.once("close", () => memory.remove(body.length));
    this.send(status, headers, body);
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
  return new Fault("badRequest", "the client closed the connection before the end of the body");
}
