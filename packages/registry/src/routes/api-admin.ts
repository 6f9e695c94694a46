/** The control API for administrators: tokens, as epoch has them and with scopes and expiry added; garbage collection. */
import * as z from "zod";
import { Fault, messageOf, tryParseDuration } from "@cocoon/core";
import { administration, everything, tryReadScope, writeScope, type Scope } from "../auth/access.ts";
import type { StoredToken } from "../auth/token-store.ts";
import type { Exchange } from "../http/exchange.ts";
import type { Handler, Methods } from "../http/handler.ts";

const maxBodyBytes = 64 * 1024;

const duration = z.string().transform((text, context): number => {
  const ms = tryParseDuration(text);
  if (ms !== undefined && ms >= 0) return ms;
  context.addIssue("must be a duration such as 720h");
  return z.NEVER;
});

const scope = z.string().transform((text, context): Scope => {
  const parsed = tryReadScope(text);
  if (parsed) return parsed;
  context.addIssue("must be repository:<pattern>:pull,push,delete, registry:catalog:* or admin");
  return z.NEVER;
});

const newToken = z.object({
  name: z.string("name is required").trim().min(1, "name is required").max(255),
  scopes: z.array(scope).max(100).optional(),
  /** "0" means for ever. */
  expiresIn: duration.optional(),
});

const listTokens: Handler<"apiTokens"> = (exchange, _route, { tokens }) =>
  exchange.json(200, tokens.list().map(tokenJson));

const createToken: Handler<"apiTokens"> = async (
  exchange,
  _route,
  { tokens, tokenLifetimeMs, epochCompat },
) => {
  const asked = await readJson(exchange, newToken);
  const lifetimeMs = asked.expiresIn ?? tokenLifetimeMs;
  const created = await tokens.create({
    name: asked.name,
    // Epoch's tokens may do everything; ours must be asked to.
    scopes: asked.scopes ?? (epochCompat ? [...everything, ...administration] : everything),
    createdBy: exchange.caller?.id ?? "",
    lifetimeMs: lifetimeMs === 0 ? undefined : lifetimeMs,
  });
  exchange.json(201, { token: created.text, ...tokenJson(created.token) }, { "cache-control": "no-store" });
};

const deleteToken: Handler<"apiToken"> = async (exchange, { id }, { tokens }) => {
  if (id === undefined) throw new Fault("badRequest", "invalid id");
  await tokens.delete(id);
  exchange.json(200, { status: "deleted" });
};

function tokenJson(token: StoredToken) {
  return {
    id: token.id,
    name: token.name,
    scopes: token.scopes.map(writeScope),
    createdBy: token.createdBy,
    createdAt: token.createdAt,
    ...(token.expiresAt === undefined ? {} : { expiresAt: token.expiresAt }),
    ...(token.lastUsed === undefined ? {} : { lastUsed: token.lastUsed }),
  };
}

const gcRequest = z.object({
  /** How old what nothing names must be, instead of the configured lease. */
  lease: duration.optional(),
  untagged: duration.optional(),
});

const collect: Handler<"apiGc"> = async (exchange, _route, { collector, stopping }) => {
  const { lease, untagged } = await readJson(exchange, gcRequest);
  const report = await collector.run({ signal: stopping, leaseMs: lease, untaggedMs: untagged });
  exchange.json(200, report);
};

async function readJson<S extends z.ZodType>(exchange: Exchange, schema: S): Promise<z.output<S>> {
  const body = await exchange.readBody(maxBodyBytes);
  const parsed = schema.safeParse(body.length === 0 ? {} : parseJson(body));
  if (parsed.success) return parsed.data;
  throw new Fault("badRequest", parsed.error.issues.map((issue) => issue.message).join("; "));
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    throw new Fault("badRequest", `the body is not JSON: ${messageOf(error)}`, { cause: error });
  }
}

export const apiTokensRoute: Methods<"apiTokens"> = { GET: listTokens, POST: createToken };
export const apiTokenRoute: Methods<"apiToken"> = { DELETE: deleteToken };
export const apiGcRoute: Methods<"apiGc"> = { POST: collect };
