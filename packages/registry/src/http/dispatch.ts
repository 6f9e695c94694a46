/** The life of one request: route, caller, authorization, handler; then a line in the log and a count. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, toFault } from "@cocoon/core";
import { findNeed } from "../auth/route-needs.ts";
import { ociFault } from "../oci-fault.ts";
import { routeTable } from "../routes/table.ts";
import type { Services } from "../open-services.ts";
import { authorize } from "./authorize.ts";
import { Exchange } from "./exchange.ts";
import type { Handler } from "./handler.ts";
import { refuse } from "./refuse.ts";
import { readRoute, type Route, type RouteKind } from "./route.ts";

export interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly expectsContinue: boolean;
  readonly allowStall: (stallMs: number) => void;
}

/** Answers the request, whatever happens; never rejects. */
export async function dispatch(services: Services, incoming: Incoming): Promise<void> {
  const remote = services.trustedProxies.findClient(incoming.request);
  const exchange = new Exchange({ ...incoming, remote, memory: services.memory, log: services.log });
  let kind: RouteKind | "unknown" = "unknown";
  try {
    const route = readRoute(exchange.path, exchange.method);
    kind = route?.kind ?? kind;
    await answer(exchange, route, services);
  } catch (error) {
    refuse(exchange, toFault(error));
  }
  account(exchange, kind, services);
}

async function answer(exchange: Exchange, route: Route | undefined, services: Services): Promise<void> {
  const { response, method } = exchange;
  response.setHeader("docker-distribution-api-version", "registry/2.0");
  // Content comes from those who push: a browser must neither guess its type nor run it.
  response.setHeader("x-content-type-options", "nosniff");
  response.setHeader("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox");
  if (setCorsHeaders(exchange, services.corsOrigins) && method === "OPTIONS") {
    exchange.send(204, {});
    return;
  }
  if (!route) throw new Fault("notFound", `there is nothing at ${exchange.path.slice(0, 200)}`);
  const handler = findHandler(route, method);
  if (!handler) {
    response.setHeader("allow", allowedMethods(route));
    throw ociFault("UNSUPPORTED", `${method} is not possible here`);
  }
  await authorize(exchange, findNeed(route, method), services);
  await handler(exchange, route, services);
}

function findHandler(route: Route, method: string): Handler<RouteKind> | undefined {
  const methods = routeTable[route.kind] as Record<string, Handler<RouteKind> | undefined>;
  const name = method === "HEAD" ? "GET" : method;
  return Object.hasOwn(methods, name) ? methods[name] : undefined;
}

function allowedMethods(route: Route): string {
  const methods = Object.keys(routeTable[route.kind]);
  return (methods.includes("GET") ? ["HEAD", ...methods] : methods).join(", ");
}

function account(exchange: Exchange, kind: RouteKind | "unknown", { log, metrics }: Services): void {
  const { method, path, response, caller, remote, signal } = exchange;
  const tookMs = performance.now() - exchange.startedMs;
  const status = signal.aborted ? 499 : response.statusCode;
  metrics.countRequest({ route: kind, method, status, tookMs });
  const fields = { method, path, status, caller: caller?.id, remote, tookMs: Math.round(tookMs * 10) / 10 };
  if (kind === "health" || kind === "ready") log.debug(fields, "request");
  else log.info(fields, "request");
}

/** Says whether the request's origin is one of the allowed ones; then the answer carries the headers for it. */
function setCorsHeaders({ request, response }: Exchange, allowed: readonly string[]): boolean {
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
