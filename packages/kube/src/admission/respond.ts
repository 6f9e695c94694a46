/** Answers, written in as few steps as Node allows. */
import type { IncomingMessage, ServerResponse } from "node:http";

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

/**
 * Answers a request whose body is still coming and will not be wanted, then hangs up. The answer goes out first; the
 * connection closes only after some of the rest was thrown away, because closing on unread data makes the kernel
 * reset the connection, and the client would see that instead of the answer.
 */
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
