/** The control API for administrators: tokens, as epoch has them and with scopes and expiry added; garbage collection; checks. */
import * as z from "zod";
import { Fault, getErrorMessage, tryParseDuration, tryParseJson } from "@cocoon/core";
import {
  administration,
  everything,
  scopeGrammar,
  tryReadScope,
  writeScope,
  type Scope,
} from "../auth/access.ts";
import type { StoredToken } from "../auth/token-store.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import type { Exchange } from "../http/exchange.ts";
import { beginScrub } from "../scrub/run-scrub.ts";

const duration = z.string().transform((text, context): number => {
  const ms = tryParseDuration(text);
  if (ms !== undefined && ms >= 0) return ms;
  context.addIssue("must be a duration such as 720h");
  return z.NEVER;
});

const scope = z.string().transform((text, context): Scope => {
  const parsed = tryReadScope(text);
  if (parsed) return parsed;
  context.addIssue(`must be ${scopeGrammar}`);
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
    // Epoch's tokens may do everything; ours only on request.
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
    expiresAt: token.expiresAt,
    lastUsed: token.lastUsed,
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

/** Checks of the stored content: POST starts one, GET shows how far it is and what it found. */
const fsckRequest = z.object({
  repair: z.boolean().default(false),
});

const startCheck: Handler<"apiFsck"> = async (exchange, _route, services) => {
  const { repair } = await readJson(exchange, fsckRequest);
  if (services.scrubber.status.isRunning)
    throw new Fault("conflict", "a check of the content is already running; see its status");
  const check = await beginScrub(services, { repair, bytesPerSecond: 0, signal: services.stopping });
  check.done.catch((error: unknown) => {
    if (!services.stopping.aborted)
      services.log.error({ error: getErrorMessage(error) }, "check of the content failed");
  });
  exchange.json(202, services.scrubber.status);
};

const checkStatus: Handler<"apiFsck"> = (exchange, _route, { scrubber }) =>
  exchange.json(200, scrubber.status);

const maxBodyBytes = 64 * 1024;

/** An empty body counts as `{}`. Throws `badRequest` with every problem. */
async function readJson<S extends z.ZodType>(exchange: Exchange, schema: S): Promise<z.output<S>> {
  const body = await exchange.readBody(maxBodyBytes);
  const text = body.toString("utf8");
  const value = text === "" ? {} : tryParseJson(text);
  if (value === undefined) throw new Fault("badRequest", "the body is not JSON");
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Fault("badRequest", parsed.error.issues.map((issue) => issue.message).join("; "));
}

export const adminRoutes = {
  apiTokens: { GET: listTokens, POST: createToken },
  apiToken: { DELETE: deleteToken },
  apiGc: { POST: collect },
  apiFsck: { GET: checkStatus, POST: startCheck },
} satisfies Partial<RouteTable>;
