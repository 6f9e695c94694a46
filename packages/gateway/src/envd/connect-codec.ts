/** The Connect protocol as far as the SDKs use it: JSON, unary and streams. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { toFault, type Fault } from "@cocoon/core";
import { GuestError } from "../guest/protocol.ts";
import { cutResponse } from "../http/http2.ts";

const httpStatus = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  aborted: 409,
  out_of_range: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  data_loss: 500,
  unauthenticated: 401,
} as const;
export type ConnectCode = keyof typeof httpStatus;

export class ConnectError extends Error {
  override readonly name = "ConnectError";
  readonly code: ConnectCode;
  constructor(code: ConnectCode, message: string) {
    super(message);
    this.code = code;
  }
  get status(): number {
    return httpStatus[this.code];
  }
}

const faultCodes: Partial<Record<Fault["code"], ConnectCode>> = {
  notFound: "not_found",
  invalid: "invalid_argument",
  badRequest: "invalid_argument",
  unavailable: "unavailable",
  timeout: "deadline_exceeded",
  notSupported: "unimplemented",
  forbidden: "permission_denied",
  unauthorized: "unauthenticated",
  tooManyRequests: "resource_exhausted",
};

export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (error instanceof GuestError)
    return new ConnectError(
      error.code in httpStatus ? (error.code as ConnectCode) : "internal",
      error.message,
    );
  const fault = toFault(error);
  return new ConnectError(faultCodes[fault.code] ?? "internal", fault.message);
}

const endOfStream = 2;
const maxMessageBytes = 8 * 1024 * 1024;

export function encodeEnvelope(flags: number, message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

/** Messages of a request stream. Ends with the body; an end-of-stream envelope ends it too. */
export async function* readEnvelopes(source: AsyncIterable<Buffer>): AsyncGenerator {
  let held: Buffer = Buffer.alloc(0);
  for await (const piece of source) {
    held = held.length === 0 ? piece : Buffer.concat([held, piece]);
    while (held.length >= 5) {
      const flags = held[0] ?? 0;
      const length = held.readUInt32BE(1);
      if (flags !== 0 && flags !== endOfStream)
        throw new ConnectError(
          "invalid_argument",
          `envelope with flags ${flags}: compression is not offered`,
        );
      if (length > maxMessageBytes)
        throw new ConnectError(
          "resource_exhausted",
          `a message of ${length} bytes; the limit is ${maxMessageBytes}`,
        );
      if (held.length < 5 + length) break;
      const body = held.subarray(5, 5 + length);
      held = held.subarray(5 + length);
      if (flags === endOfStream) return;
      yield parseMessage(body);
    }
  }
  if (held.length > 0)
    throw new ConnectError("invalid_argument", "the request ended in the middle of an envelope");
}

function parseMessage(body: Buffer): unknown {
  try {
    return body.length === 0 ? {} : JSON.parse(body.toString("utf8"));
  } catch {
    throw new ConnectError("invalid_argument", "the message is not JSON");
  }
}

export async function readUnary(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > maxMessageBytes)
      throw new ConnectError("resource_exhausted", `the message is larger than ${maxMessageBytes} bytes`);
    parts.push(piece);
  }
  return parseMessage(Buffer.concat(parts));
}

export function sendUnary(response: ServerResponse, message: unknown): void {
  const text = JSON.stringify(message);
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  response.end(text);
}

export function sendUnaryError(response: ServerResponse, error: ConnectError): void {
  const text = JSON.stringify({ code: error.code, message: error.message });
  response.writeHead(error.status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}

/** The answer of a stream: 200 at once, whatever comes; failures are in the last envelope. */
export class StreamAnswer {
  readonly #response: ServerResponse;
  readonly #timer: NodeJS.Timeout;
  #quiet = true;

  // oxlint-disable-next-line max-params -- where, how often, what
  constructor(response: ServerResponse, keepaliveMs: number, keepalive: unknown) {
    this.#response = response;
    response.writeHead(200, { "content-type": "application/connect+json", "cache-control": "no-store" });
    response.flushHeaders();
    this.#timer = setInterval(() => {
      if (this.#quiet && response.writable) response.write(encodeEnvelope(0, keepalive));
      this.#quiet = true;
    }, keepaliveMs);
    this.#timer.unref();
  }

  /** Resolves when there is room for more. */
  async send(message: unknown): Promise<void> {
    this.#quiet = false;
    const response = this.#response;
    if (response.destroyed || response.write(encodeEnvelope(0, message))) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        response.off("drain", done).off("close", done);
        resolve();
      };
      response.on("drain", done).on("close", done);
    });
  }

  end(error?: ConnectError): void {
    clearInterval(this.#timer);
    const trailer = error ? { error: { code: error.code, message: error.message } } : {};
    this.#response.end(encodeEnvelope(endOfStream, trailer));
  }

  /** The sandbox is gone: a clean end would be taken for an answer. */
  cut(): void {
    clearInterval(this.#timer);
    cutResponse(this.#response);
  }
}

/** `Keepalive-Ping-Interval` in seconds; 90 when it is missing. */
export function readKeepaliveMs({ headers }: IncomingMessage): number {
  const seconds = Number(headers["keepalive-ping-interval"]);
  return Number.isFinite(seconds) && seconds >= 1 && seconds <= 3600 ? seconds * 1000 : 90_000;
}

/** `Connect-Timeout-Ms`; undefined when there is none. */
export function readTimeoutMs({ headers }: IncomingMessage): number | undefined {
  const text = headers["connect-timeout-ms"];
  const value = Number(text);
  return typeof text === "string" && Number.isFinite(value) && value > 0 ? value : undefined;
}
