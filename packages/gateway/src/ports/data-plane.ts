/** Answers on the way to a sandbox. SDKs compare the words. */
import type { ServerResponse } from "node:http";
import { sendJson } from "../http/answer.ts";

const notFoundMessage = "The sandbox was not found";
const portClosedMessage = "The sandbox is running but port is not open";

export class TrafficError extends Error {
  override readonly name = "TrafficError";
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;

  // oxlint-disable-next-line max-params -- status and message, as everywhere
  constructor(status: number, message: string, retryAfterSeconds?: number) {
    super(message);
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export function sandboxNotFound(): TrafficError {
  return new TrafficError(502, notFoundMessage);
}

export function portClosed(): TrafficError {
  return new TrafficError(502, portClosedMessage);
}

export function sendTrafficError(
  response: ServerResponse,
  error: TrafficError,
  { id, port }: { readonly id: string; readonly port: number },
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, message, retryAfterSeconds } = error;
  const closed = message === portClosedMessage ? { port } : {};
  const retry = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
  sendJson(response, status, { sandboxId: id, message, code: status, ...closed }, retry);
}
