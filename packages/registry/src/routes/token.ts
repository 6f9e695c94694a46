/** The docker token flow: a secret as password (or none) is exchanged for a token that is valid for an hour. */
import type { Exchange } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import { readAuthorization, readWantedScopes } from "../auth/authenticator.ts";

const maxFormBytes = 64 * 1024;

const answer: Handler<"token"> = async (exchange, _route, { auth, limiters }) => {
  const form = await readForm(exchange);
  const basic = readAuthorization(exchange.header("authorization"));
  const secret =
    basic.kind === "secret" ? basic.secret : (form.get("password") ?? form.get("refresh_token") ?? undefined);
  const granted = auth.exchange(secret || undefined, readWantedScopes(form.getAll("scope")));
  if (!granted) {
    if (secret) limiters.countFailure(exchange.remote);
    exchange.send(401, { "content-type": "text/plain; charset=utf-8" }, "invalid credentials\n");
    return;
  }
  exchange.json(
    200,
    {
      token: granted.token,
      access_token: granted.token,
      expires_in: granted.expiresInSeconds,
      issued_at: new Date().toISOString(),
    },
    { "cache-control": "no-store" },
  );
};

async function readForm(exchange: Exchange): Promise<URLSearchParams> {
  const form = new URLSearchParams(exchange.query);
  if (exchange.method !== "POST") return form;
  const body = await exchange.readBody(maxFormBytes);
  for (const [key, value] of new URLSearchParams(body.toString("utf8"))) form.append(key, value);
  return form;
}

export const tokenRoutes = {
  token: { GET: answer, POST: answer },
} satisfies Partial<RouteTable>;
