/** Request bodies, whole and bounded, and answers, written in as few steps as Node allows. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault } from "@cocoon/core";

/** `body` must be ASCII: its length is taken for its size. */
export function sendReview(response: ServerResponse, body: string, close: boolean): void {
  const headers = ["Content-Type", "application/json", "Content-Length", String(body.length)];
  if (close) headers.push("Connection", "close");
  response.writeHead(200, headers);
  response.end(body, "latin1");
}

export interface TextAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function sendText(response: ServerResponse, answer: TextAnswer): void {
  if (writeText(response, answer)) response.end();
}

const discardMs = 1_000;
const discardBytes = 32 * 1024 * 1024;

/** Answers and hangs up; part of the unread body is discarded first, because closing on unread data resets the connection. */
export function sendTextAndHangUp(
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  answer: TextAnswer,
): void {
  if (!writeText(response, { ...answer, headers: { ...answer.headers, Connection: "close" } })) return;
  let left = discardBytes;
  const finish = () => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(finish, discardMs);
  request.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) finish();
  });
  request.once("close", finish);
  request.once("end", finish);
  request.resume();
}

function writeText(response: ServerResponse, { status, text, headers }: TextAnswer): boolean {
  if (response.destroyed || response.headersSent) return false;
  const body = Buffer.from(text, "utf8");
  response.writeHead(status, {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Content-Length": body.length,
    ...headers,
  });
  response.write(body);
  return true;
}

/** Rejects with `tooLarge` as soon as that is certain (the rest stays unread), `unavailable` when the client goes away. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;
    const stop = (fault: Fault) => {
      request.removeAllListeners("data");
      request.pause();
      reject(fault);
    };
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) {
      request.on("error", () => undefined); // an aborted upload was already answered
      return stop(tooLarge(maxBytes));
    }
    request.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received > maxBytes) stop(tooLarge(maxBytes));
      else chunks.push(chunk);
    });
    // The usual body arrives in one TLS record and needs no copy.
    request.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, received)),
    );
    request.on("error", (error) =>
      reject(new Fault("unavailable", "the client went away", { cause: error })),
    );
    request.on("close", () => {
      if (!request.complete) reject(new Fault("unavailable", "the client went away"));
    });
  });
}

function tooLarge(maxBytes: number): Fault {
  return new Fault("tooLarge", `request entity is too large; limit is ${maxBytes} bytes`);
}
