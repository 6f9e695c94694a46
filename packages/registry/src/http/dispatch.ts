/** The life of one request: what is asked, by whom, may they, the handler; then a line in the log and a count. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, toFault } from "@cocoon/core";
import { needOf } from "../auth/route-needs.ts";
import { ociFault } from "../oci-fault.ts";
import { routeTable } from "../routes/table.ts";
import type { Services } from "../services.ts";
import { authorize } from "./authorize.ts";
import { setCorsHeaders } from "./cors.ts";
import { Exchange } from "./exchange.ts";
import type { Handler } from "./handler.ts";
import { refuse } from "./refuse.ts";
import { readRoute, type Route, type RouteKind } from "./route.ts";

export interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly expectsContinue: boolean;
}

/** Answers the request, whatever happens; never rejects. */
export async function dispatch(services: Services, incoming: Incoming): Promise<void> {
  const exchange = new Exchange({ ...incoming, log: services.log });
  let kind: RouteKind | "unknown" = "unknown";
  try {
    const route = readRoute(exchange.path);
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
  if (setCorsHeaders(exchange, services.corsOrigins) && method === "OPTIONS") {
    exchange.send(204, {});
    return;
  }
  if (!route) throw new Fault("notFound", `there is nothing at ${exchange.path.slice(0, 200)}`);
  const handler = handlerOf(route, method);
  if (!handler) {
    response.setHeader("allow", allowedMethods(route));
    throw ociFault("UNSUPPORTED", `${method} is not possible here`);
  }
  await authorize(exchange, needOf(route, method), services);
  await handler(exchange, route, services);
}

function handlerOf(route: Route, method: string): Handler<RouteKind> | undefined {
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
  metrics.noteRequest({ route: kind, method, status, tookMs });
  const fields = { method, path, status, caller: caller?.id, remote, tookMs: Math.round(tookMs * 10) / 10 };
  if (kind === "health" || kind === "ready") log.debug(fields, "request");
  else log.info(fields, "request");
}
