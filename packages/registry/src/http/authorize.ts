/** Before a handler runs: who is it, may they, and if not, how to become somebody who may. */
import { allows, writeScope, type Caller, type Need } from "../auth/access.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../services.ts";
import type { Exchange } from "./exchange.ts";
import { publicBase } from "./public-base.ts";

/** Sets the exchange's caller; throws when they may not do what the request needs. */
export async function authorize(exchange: Exchange, need: Need, services: Services): Promise<void> {
  if (need.kind === "nothing") return;
  const { limiters } = services;
  limiters.assertMayTry(exchange.remote);
  const caller = await identify(exchange, services);
  exchange.caller = caller;
  if (!caller) limiters.noteFailure(exchange.remote);
  else limiters.assertNotTooFast(caller.anonymous ? exchange.remote : caller.id);
  if (caller && isSomebody(caller, need) && allows(caller.scopes, need)) return;
  if (caller && !caller.anonymous && !services.auth.couldAllow(exchange.header("authorization"), need))
    throw ociFault("DENIED", "the token does not allow this");
  if (exchange.path.startsWith("/v2"))
    exchange.response.setHeader("www-authenticate", challenge(exchange, need, services));
  throw ociFault(
    "UNAUTHORIZED",
    isBrowserPath(exchange.path) ? "login required" : "authentication is needed",
  );
}

async function identify(exchange: Exchange, { auth, sessions, sso }: Services): Promise<Caller | undefined> {
  const authorization = exchange.header("authorization");
  if (sso && authorization === undefined) {
    const person = await sessions.caller(exchange.request);
    if (person) return person;
  }
  return auth.authenticate(authorization);
}

function isSomebody(caller: Caller, need: Need): boolean {
  return !caller.anonymous || need.kind !== "identity";
}

function isBrowserPath(path: string): boolean {
  return path.startsWith("/api/") || path.startsWith("/auth/");
}

/** How a docker client gets the token that it needs. */
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
