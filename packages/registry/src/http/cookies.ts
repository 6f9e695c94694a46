/** Cookies, as far as a login needs them. */
import type { IncomingMessage } from "node:http";

export function readCookie(request: IncomingMessage, name: string): string | undefined {
  for (const part of (request.headers.cookie ?? "").split(";")) {
    const equals = part.indexOf("=");
    if (equals !== -1 && part.slice(0, equals).trim() === name) return part.slice(equals + 1).trim();
  }
  return undefined;
}

export interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly maxAgeSeconds: number;
  readonly secure: boolean;
}

export function writeCookie({ name, value, maxAgeSeconds, secure }: Cookie): string {
  const flags = secure ? "; Secure" : "";
  return `${name}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${flags}`;
}
