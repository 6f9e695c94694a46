/** Login of people: there and back again, who am I, and out. Only when a provider is configured. */
import { isSameSecret, newStateNonce } from "@cocoon/contract/session";
import { Fault, isFault, getErrorMessage } from "@cocoon/core";
import { sessionCookie, sessionSeconds } from "../auth/sessions.ts";
import { authorizeLocation, identify, type Person, type SsoOptions } from "../auth/sso.ts";
import { readCookie, writeCookie } from "../http/cookies.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import { publicBase } from "../http/public-base.ts";
import type { Services } from "../open-services.ts";

const stateCookie = "sso_state";
const stateSeconds = 300;
const text = { "content-type": "text/plain; charset=utf-8" };

const login: Handler<"login"> = (exchange, _route, services) => {
  const sso = configured(services);
  const state = newStateNonce();
  setCookie(exchange, services, { name: stateCookie, value: state, maxAgeSeconds: stateSeconds });
  redirect(exchange, authorizeLocation(sso, state));
};

const callback: Handler<"loginCallback"> = async (exchange, _route, services) => {
  const sso = configured(services);
  const expected = readCookie(exchange.request, stateCookie);
  if (expected === undefined && (await services.sessions.person(exchange.request))) {
    redirect(exchange, "/"); // the button was pressed twice
    return;
  }
  if (expected === undefined || !isSameSecret(expected, exchange.query.get("state") ?? ""))
    throw new Fault("forbidden", "the login was not started here, or too long ago; start again at /login");
  const code = exchange.query.get("code");
  if (!code) throw new Fault("badRequest", "the login provider sent no code");
  const person = await identified(sso, code, exchange);
  if (!person) return;
  setCookie(exchange, services, { name: stateCookie, value: "", maxAgeSeconds: 0 });
  setCookie(exchange, services, {
    name: sessionCookie,
    value: await services.sessions.sign(person),
    maxAgeSeconds: sessionSeconds,
  });
  redirect(exchange, "/");
};

/** Errors of the provider are answered with 502: neither the user nor this server caused them. */
async function identified(sso: SsoOptions, code: string, exchange: Exchange): Promise<Person | undefined> {
  try {
    return await identify(sso, code, { signal: exchange.signal });
  } catch (error) {
    if (isFault(error, "forbidden")) throw error;
    exchange.log.warn({ error: getErrorMessage(error) }, "login failed");
    exchange.send(502, text, "the login provider did not answer as expected\n");
    return undefined;
  }
}

const logout: Handler<"logout"> = (exchange, _route, services) => {
  const sso = configured(services);
  setCookie(exchange, services, { name: sessionCookie, value: "", maxAgeSeconds: 0 });
  redirect(exchange, sso.logoutUrl ?? "/");
};

const me: Handler<"me"> = async (exchange, _route, { sessions }) => {
  const person = await sessions.person(exchange.request);
  exchange.json(200, { user: person?.user ?? exchange.caller?.id, email: person?.email ?? "" });
};

/** There is no page here, but people who come by must find the login. */
const home: Handler<"home"> = async (exchange, _route, { sso, sessions }) => {
  if (sso && !(await sessions.person(exchange.request))) redirect(exchange, "/login");
  else exchange.send(200, text, "epoch registry: /v2/ for clients, /api/ for tools\n");
};

function configured({ sso }: Services): SsoOptions {
  if (!sso) throw new Fault("notFound", "login is not configured");
  return sso;
}

function redirect(exchange: Exchange, location: string): void {
  exchange.send(302, { location, "cache-control": "no-store" });
}

interface Crumb {
  readonly name: string;
  readonly value: string;
  readonly maxAgeSeconds: number;
}

function setCookie(exchange: Exchange, { publicUrl }: Services, crumb: Crumb): void {
  const secure = publicBase(exchange.request, publicUrl).startsWith("https:");
  exchange.response.appendHeader("set-cookie", writeCookie({ ...crumb, secure }));
}

export const loginRoutes = {
  home: { GET: home },
  loginCallback: { GET: callback },
  login: { GET: login },
  logout: { GET: logout },
  me: { GET: me },
} satisfies Partial<RouteTable>;
