/** Errors of the router and of the runtime behind it, in the bodies that agent-sandbox's clients parse. */
import type { ServerResponse } from "node:http";
import { sendJson } from "../http/answer.ts";

export class RouterError extends Error {
  override readonly name = "RouterError";
  readonly status: number;
  /** `detail` is the router's word, `message` the runtime's. */
  readonly field: "detail" | "message";

  // oxlint-disable-next-line max-params -- status and message, as everywhere
  constructor(status: number, message: string, field: "detail" | "message" = "detail") {
    super(message);
    this.status = status;
    this.field = field;
  }
}

export function sendRouterError(response: ServerResponse, { status, message, field }: RouterError): void {
  if (response.headersSent) return void response.destroy();
  sendJson(response, status, { [field]: message });
}
