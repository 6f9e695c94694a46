/** Bodies in and out: JSON with a limit, faults as the API server words them, and headers that every answer carries. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, getErrorMessage, getTraits, toFault, tryParseJson } from "@cocoon/core";
import type * as z from "zod";

/** Only our own files run; nothing is loaded from elsewhere, and no other page may frame this one. */
export function contentPolicy(styleNonce?: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    styleNonce === undefined ? "style-src 'self'" : `style-src 'self' 'nonce-${styleNonce}'`,
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

export const securityHeaders: Readonly<Record<string, string>> = {
  "content-security-policy": contentPolicy(),
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
};

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent) return void response.destroy();
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
  });
  response.end(text);
}

/** As a Kubernetes Status, so that the page reads one kind of error. */
export function sendFault(response: ServerResponse, error: unknown): void {
  const fault = toFault(error);
  const { status, reason } = getTraits(fault.code);
  const message = getErrorMessage(fault);
  sendJson(response, status, {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code: status,
    reason,
    message,
  });
}

export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size > maxBytes) throw new Fault("tooLarge", `the request has more than ${maxBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

export async function readJson<S extends z.ZodType>(
  request: IncomingMessage,
  schema: S,
  maxBytes = 64 * 1024,
): Promise<z.output<S>> {
  const parsed = schema.safeParse(tryParseJson((await readBody(request, maxBytes)).toString("utf8")));
  if (!parsed.success)
    throw new Fault(
      "badRequest",
      `the request is malformed: ${parsed.error.issues[0]?.message ?? "no JSON"}`,
    );
  return parsed.data;
}
