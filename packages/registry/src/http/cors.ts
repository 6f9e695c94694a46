/** Which web pages of other origins may call us from a browser. None, unless somebody says so. */
import type { Exchange } from "./exchange.ts";

/** Says whether the request's origin is one of the allowed ones; then the answer carries the headers for it. */
export function setCorsHeaders({ request, response }: Exchange, allowed: readonly string[]): boolean {
  const { origin } = request.headers;
  if (allowed.length === 0) return false;
  const any = allowed.includes("*");
  if (!any && (origin === undefined || !allowed.includes(origin))) return false;
  response.setHeader("access-control-allow-origin", any ? "*" : (origin ?? ""));
  if (!any) response.setHeader("vary", "Origin");
  response.setHeader("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  response.setHeader("access-control-allow-headers", "Authorization, Content-Type, Content-Range, Range");
  response.setHeader(
    "access-control-expose-headers",
    "Docker-Content-Digest, Link, Location, Range, OCI-Subject",
  );
  return true;
}
