/** The address under which a client reached us, for answers that must name it in full. */
import type { IncomingMessage } from "node:http";

export function publicBase(request: IncomingMessage, publicUrl: string | undefined): string {
  if (publicUrl) return publicUrl.replace(/\/+$/, "");
  const secure = "encrypted" in request.socket;
  const scheme = firstValue(request.headers["x-forwarded-proto"]) ?? (secure ? "https" : "http");
  const host = firstValue(request.headers["x-forwarded-host"]) ?? request.headers.host ?? "localhost";
  // Both come from the client and end in a header: only what can be part of an address passes.
  const cleanHost = /^[A-Za-z0-9.:[\]_-]+$/.test(host) ? host : "localhost";
  return `${scheme === "https" ? "https" : "http"}://${cleanHost}`;
}

function firstValue(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  return text?.split(",")[0]?.trim() || undefined;
}
