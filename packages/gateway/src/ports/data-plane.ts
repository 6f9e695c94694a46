/** Answers on the way to a sandbox. SDKs compare the words. */
import type { ServerResponse } from "node:http";
import { sendJson } from "../http/answer.ts";
import { cutResponse } from "../http/http2.ts";
import type { TrafficTarget } from "./target.ts";

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

export function sendTrafficError(response: ServerResponse, error: TrafficError, target: TrafficTarget): void {
  if (response.headersSent) {
    cutResponse(response);
    return;
  }
  const { status, message, retryAfterSeconds } = error;
  const closed = message === portClosedMessage ? { port: target.port } : {};
  const retry = retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) };
  sendJson(response, status, { ...describeTarget(target), message, code: status, ...closed }, retry);
}

/** Of the body of an error. */
export function describeTarget(target: TrafficTarget): Record<string, string> {
  return target.kind === "sandbox"
    ? { sandboxId: target.id }
    : { machine: `${target.namespace}/${target.machine}` };
}
