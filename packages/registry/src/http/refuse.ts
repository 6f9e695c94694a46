/** Errors as answers, in the shape that the caller of that path expects. */
import { getErrorMessage, type Fault } from "@cocoon/core";
import { findOciCode } from "../oci-fault.ts";
import type { Exchange } from "./exchange.ts";

export function refuse(exchange: Exchange, fault: Fault): void {
  const { response, request } = exchange;
  const { status } = fault.traits;
  if (exchange.signal.aborted || response.destroyed) return;
  if (status >= 500)
    exchange.log.error({ err: fault, path: exchange.path, code: fault.code }, "request failed");
  if (response.headersSent) {
    response.destroy(); // too late for a status: only a closed connection shows the failure
    return;
  }
  if (fault.retryAfterMs !== undefined)
    response.setHeader("retry-after", Math.ceil(fault.retryAfterMs / 1_000));
  // Internal errors may name paths; they are in the log.
  const message = fault.code === "internal" ? "internal error" : getErrorMessage(fault);
  const { type, body } = formatError(exchange.path, { message, code: findOciCode(fault) });
  if (request.complete) exchange.send(status, { "content-type": type }, body);
  else sendBeforeBodyEnds(exchange, { status, type, body });
}

function formatError(
  path: string,
  { message, code }: { readonly message: string; readonly code: string },
): { readonly type: string; readonly body: string } {
  if (/^\/(api|auth)\//.test(path))
    return { type: "application/json", body: JSON.stringify({ error: message }) };
  if (/^\/(dl\/|login|logout)/.test(path)) return { type: "text/plain; charset=utf-8", body: `${message}\n` };
  return { type: "application/json", body: JSON.stringify({ errors: [{ code, message }] }) };
}

/** How much of a refused body is read, and for how long, so that the client gets to read the answer. */
const maxDrainBytes = 256 * 1024 * 1024;
const maxDrainMs = 10_000;

/**
 * The client is still sending. A connection closed now would be reset, and the client would see that instead of the answer.
 * So the whole answer is sent, the body read and dropped, and the connection closed when the client stopped sending.
 */
function sendBeforeBodyEnds(
  { request, response, method }: Exchange,
  { status, type, body }: { readonly status: number; readonly type: string; readonly body: string },
): void {
  const length = Buffer.byteLength(body);
  response.writeHead(status, { "content-type": type, "content-length": length, connection: "close" });
  if (method === "HEAD") response.flushHeaders();
  else response.write(body);
  let drained = 0;
  const finish = () => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(finish, maxDrainMs);
  request.on("data", (chunk: Buffer) => {
    drained += chunk.length;
    if (drained > maxDrainBytes) finish();
  });
  request.once("end", finish);
  request.once("close", finish);
  request.resume();
}
