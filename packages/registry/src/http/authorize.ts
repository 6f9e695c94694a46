/** Before a handler runs: who the caller is, whether the request is allowed, and if not, how to authenticate. */
import { allows, writeScope, type Caller, type Need } from "../auth/access.ts";
import { tryRepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../open-services.ts";
import type { Exchange } from "./exchange.ts";
import { publicBase } from "./public-base.ts";

/** Sets the exchange's caller; throws when they may not do what the request needs. */
export async function authorize(exchange: Exchange, need: Need, services: Services): Promise<void> {
  if (need.kind === "nothing") return;
  const { limiters, stallTimeoutMs } = services;
  const caller = await identify(exchange, services);
  exchange.caller = caller;
  if (!caller) limiters.countFailure(exchange.remote);
  else limiters.assertNotTooFast(exchange.callerId);
  if (caller && !caller.anonymous) exchange.allowStall(stallTimeoutMs);
  if (caller && isIdentified(caller, need, services) && allows(caller.scopes, need)) return;
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
  // What /v2 serves was pushed by others: a page among it must not act in the name of a person who looks at it.
  if (sso && authorization === undefined && isBrowserPath(exchange.path)) {
    const person = await sessions.caller(exchange.request);
    if (person) return person;
  }
  return auth.authenticate(authorization);
}

/** Anonymous callers may read content where that is configured, and nothing about it. */
function isIdentified(caller: Caller, need: Need, { epochCompat }: Services): boolean {
  if (!caller.anonymous) return true;
  return need.kind !== "identity" && (need.kind !== "statistics" || epochCompat);
}

function isBrowserPath(path: string): boolean {
  return path.startsWith("/api/") || path.startsWith("/auth/");
}

function challenge(exchange: Exchange, need: Need, { publicUrl }: Services): string {
  const parts = [`realm="${publicBase(exchange.request, publicUrl)}/v2/token"`, 'service="epoch"'];
  if (need.kind === "catalog" || need.kind === "statistics") parts.push('scope="registry:catalog:*"');
  if (need.kind === "repository") {
    // A client that pushes also looks up what is there.
    const actions = need.action === "push" ? (["pull", "push"] as const) : [need.action];
    const scopes = [writeScope({ kind: "repository", pattern: need.name, actions: [...actions] })];
    const source = tryRepositoryName(exchange.query.get("from") ?? "");
    if (source && exchange.query.has("mount"))
      scopes.push(writeScope({ kind: "repository", pattern: source, actions: ["pull"] }));
    parts.push(`scope="${scopes.join(" ")}"`);
  }
  return `Bearer ${parts.join(",")}`;
}
