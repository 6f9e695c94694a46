/** Answers of the control API: the error body that the SDKs parse, and bodies with limits. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { toFault, type Fault } from "@cocoon/core";
import { cutResponse } from "./http2.ts";

/** A refusal with the status and words of the E2B API. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  // oxlint-disable-next-line max-params -- status and message, as everywhere
  constructor(
    status: number,
    message: string,
    options: { readonly errorCode?: string; readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.status = status;
    this.errorCode = options.errorCode;
    this.headers = options.headers ?? {};
  }
}

const statuses: Partial<Record<Fault["code"], number>> = {
  notFound: 404,
  conflict: 409,
  alreadyExists: 409,
  invalid: 400,
  badRequest: 400,
  tooManyRequests: 429,
  notSupported: 501,
  unavailable: 503,
  timeout: 504,
  forbidden: 403,
};

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const fault = toFault(error);
  return new ApiError(statuses[fault.code] ?? 500, fault.message);
}

/** SDKs decide by `code` in the body, and parse it strictly. */
export function sendError(response: ServerResponse, error: ApiError): void {
  if (response.headersSent) {
    cutResponse(response);
    return;
  }
  const { status, message, errorCode } = error;
  const body = { code: status, message, ...(errorCode ? { error_code: errorCode } : {}) };
  sendJson(response, status, body, error.headers);
}

// oxlint-disable-next-line max-params -- an answer
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

/** JS parses whatever is not marked as empty. */
export function sendEmpty(response: ServerResponse, status: number): void {
  response.writeHead(status, status === 204 ? {} : { "content-length": "0" });
  response.end();
}

const maxBodyBytes = 1024 * 1024;

/** The JSON body; undefined when there is none. */
export async function readJsonBody(request: IncomingMessage, limit = maxBodyBytes): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > limit) throw new ApiError(413, `the body is larger than ${limit} bytes`);
    parts.push(piece);
  }
  if (size === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new ApiError(400, "the body is not JSON");
  }
}
