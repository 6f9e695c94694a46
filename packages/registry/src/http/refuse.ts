/** Errors as answers, in the shape that the caller of that path expects. */
import { messageOf, type Fault } from "@cocoon/core";
import { ociCodeOf } from "../oci-fault.ts";
import type { Exchange } from "./exchange.ts";

export function refuse(exchange: Exchange, fault: Fault): void {
  const { response, request } = exchange;
  const { status } = fault.traits;
  if (exchange.signal.aborted || response.destroyed) return;
  if (status >= 500)
    exchange.log.error({ err: fault, path: exchange.path, code: fault.code }, "request failed");
  if (response.headersSent) {
    response.destroy(); // too late for a status: a cut connection is the only way to say it
    return;
  }
  if (fault.retryAfterMs !== undefined)
    response.setHeader("retry-after", Math.ceil(fault.retryAfterMs / 1_000));
  if (!request.complete) cutUnreadBody(exchange);
  // What went wrong inside is for the log; it may name paths.
  const message = fault.code === "internal" ? "internal error" : messageOf(fault);
  if (/^\/(api|auth)\//.test(exchange.path)) exchange.json(status, { error: message });
  else if (/^\/(dl\/|login|logout)/.test(exchange.path))
    exchange.send(status, { "content-type": "text/plain; charset=utf-8" }, `${message}\n`);
  else exchange.json(status, { errors: [{ code: ociCodeOf(fault), message }] });
}

const lingerMs = 2_000;

/** The rest of a refused body is of no use: read a little, so that the client sees the answer, then hang up. */
function cutUnreadBody({ request, response }: Exchange): void {
  response.setHeader("connection", "close");
  response.once("finish", () => {
    const timer = setTimeout(() => request.socket.destroy(), lingerMs);
    request.socket.once("close", () => clearTimeout(timer));
    request.resume();
  });
}
