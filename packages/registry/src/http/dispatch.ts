/** The life of one request: who asks, what for, may they, the handler, and one place where errors become answers. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault, messageOf, toFault } from "@cocoon/core";
import { allows, writeScope, type Caller, type Need } from "../auth/access.ts";
import { needOf } from "../auth/route-needs.ts";
import { ociCodeOf, ociFault } from "../oci-fault.ts";
import { blobRoute } from "../routes/blobs.ts";
import { catalogRoute, pingRoute, referrersRoute, tagsRoute } from "../routes/discovery.ts";
import { healthRoute, readyRoute } from "../routes/health.ts";
import { manifestRoute } from "../routes/manifests.ts";
import { tokenRoute } from "../routes/token.ts";
import { uploadRoute, uploadsRoute } from "../routes/uploads.ts";
import type { Services } from "../services.ts";
import { publicBase } from "./public-base.ts";
import { Exchange } from "./exchange.ts";
import type { Handler, Methods } from "./handler.ts";
import { readRoute, type Route, type RouteKind } from "./route.ts";

const table: { readonly [K in RouteKind]: Methods<K> } = {
  ping: pingRoute,
  catalog: catalogRoute,
  token: tokenRoute,
  manifest: manifestRoute,
  blob: blobRoute,
  uploads: uploadsRoute,
  upload: uploadRoute,
  tags: tagsRoute,
  referrers: referrersRoute,
  health: healthRoute,
  ready: readyRoute,
};

export interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly expectsContinue: boolean;
}

/** Answers the request, whatever happens; never rejects. */
export async function dispatch(services: Services, incoming: Incoming): Promise<void> {
  const startedMs = performance.now();
  const exchange = new Exchange({ ...incoming, log: services.log });
  const { request, response } = incoming;
  response.setHeader("docker-distribution-api-version", "registry/2.0");
  try {
    await answer(exchange, services);
  } catch (error) {
    refuse(exchange, toFault(error));
  }
  services.log.info(
    {
      method: exchange.method,
      path: exchange.path,
      status: response.statusCode,
      caller: exchange.caller?.id,
      remote: request.socket.remoteAddress,
      tookMs: Math.round(performance.now() - startedMs),
    },
    "request",
  );
}

async function answer(exchange: Exchange, services: Services): Promise<void> {
  const route = readRoute(exchange.path);
  if (!route) throw new Fault("notFound", `there is nothing at ${exchange.path.slice(0, 200)}`);
  const handler = handlerOf(route, exchange.method);
  if (!handler) {
    exchange.response.setHeader("allow", allowedMethods(route));
    throw ociFault("UNSUPPORTED", `${exchange.method} is not possible here`);
  }
  authorize(exchange, needOf(route, exchange.method), services);
  await handler(exchange, route, services);
}

function handlerOf(route: Route, method: string): Handler<RouteKind> | undefined {
  const methods = table[route.kind] as Record<string, Handler<RouteKind> | undefined>;
  const name = method === "HEAD" ? "GET" : method;
  return Object.hasOwn(methods, name) ? methods[name] : undefined;
}

function allowedMethods(route: Route): string {
  const methods = Object.keys(table[route.kind]);
  return (methods.includes("GET") ? ["HEAD", ...methods] : methods).join(", ");
}

function authorize(exchange: Exchange, need: Need, services: Services): void {
  if (need.kind === "nothing") return;
  const caller = services.auth.authenticate(exchange.header("authorization"));
  exchange.caller = caller;
  if (caller && maySkipLogin(caller, need) && allows(caller.scopes, need)) return;
  if (caller && !caller.anonymous && !services.auth.couldAllow(exchange.header("authorization"), need))
    throw ociFault("DENIED", "the token does not allow this");
  exchange.response.setHeader("www-authenticate", challenge(exchange, need, services));
  throw ociFault(
    "UNAUTHORIZED",
    caller?.anonymous === false ? "the token does not cover this" : "authentication is needed",
  );
}

function maySkipLogin(caller: Caller, need: Need): boolean {
  return !caller.anonymous || need.kind !== "identity";
}

function challenge(exchange: Exchange, need: Need, { publicUrl }: Services): string {
  const parts = [`realm="${publicBase(exchange.request, publicUrl)}/v2/token"`, 'service="epoch"'];
  if (need.kind === "catalog") parts.push('scope="registry:catalog:*"');
  if (need.kind === "repository") {
    // A pusher also looks at what is there.
    const actions = need.action === "push" ? (["pull", "push"] as const) : [need.action];
    parts.push(`scope="${writeScope({ kind: "repository", pattern: need.name, actions: [...actions] })}"`);
  }
  return `Bearer ${parts.join(",")}`;
}

function refuse(exchange: Exchange, fault: Fault): void {
  const { response, request } = exchange;
  if (exchange.signal.aborted || response.destroyed) return;
  if (fault.traits.status >= 500) exchange.log.error({ err: fault, path: exchange.path }, "request failed");
  if (response.headersSent) {
    response.destroy(); // too late for a status: a cut connection is the only way to say it
    return;
  }
  if (fault.retryAfterMs !== undefined)
    response.setHeader("retry-after", Math.ceil(fault.retryAfterMs / 1_000));
  if (!request.complete) cutUnreadBody(exchange);
  const message =
    fault.traits.status >= 500 && fault.code === "internal" ? "internal error" : messageOf(fault);
  exchange.json(fault.traits.status, { errors: [{ code: ociCodeOf(fault), message }] });
}

const lingerMs = 2_000;

/** The rest of a refused body is of no use: read a little, so that the client sees the answer, then hang up. */
function cutUnreadBody({ request, response }: Exchange): void {
  response.setHeader("connection", "close");
  response.once("finish", () => {
    const timer = setTimeout(() => request.socket.destroy(), lingerMs);
    request.socket.once("close", () => clearTimeout(timer));
    request.resume();
  });
}
