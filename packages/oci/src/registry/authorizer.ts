/**
 * Proves to one registry who we are. Nothing is sent before the registry asks; what it asks for the first time is
 * remembered, so that later requests carry their proof from the start. Tokens are kept per set of scopes until
 * shortly before they end, and requests that need the same token at the same time share one exchange.
 */
import { Fault, orAborted, toFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { isLoopbackHost, type RegistryAddress } from "./address.ts";
import { readChallenges } from "./challenge.ts";
import type { Credential, CredentialSource } from "./credentials.ts";
import { readFault, readBody, type WireRequest, type WireResponse } from "./wire.ts";

/** Sends a request without any proof of its own; used for the token service. */
type PlainSend = (request: WireRequest, options: Abortable) => Promise<WireResponse>;

interface TokenService {
  readonly realm: URL;
  readonly service: string | undefined;
}

type Demand =
  | { readonly kind: "unknown" }
  | { readonly kind: "basic" }
  | ({ readonly kind: "bearer" } & TokenService);

interface HeldToken {
  readonly header: string;
  readonly until: number;
}

const answerSchema = z.looseObject({
  token: z.string().optional(),
  access_token: z.string().optional(),
  expires_in: z.number().optional(),
});

const tokenAnswerBytes = 1024 * 1024;
/** What the token specification says for a token that does not tell. */
const defaultLifetimeS = 60;
const heldTokens = 1000;

/** A request that was answered with 401. */
export interface Refused {
  readonly response: WireResponse;
  readonly scopes: readonly string[];
  /** The header it was sent with, if any. */
  readonly header: string | undefined;
}

export interface AuthorizerOptions {
  readonly address: RegistryAddress;
  readonly credentials: CredentialSource;
  readonly send: PlainSend;
  readonly now?: () => number;
}

export class Authorizer {
  readonly #options: AuthorizerOptions;
  #demand: Demand = { kind: "unknown" };
  readonly #tokens = new Map<string, Promise<HeldToken>>();

  constructor(options: AuthorizerOptions) {
    this.#options = options;
  }

  /** The `Authorization` header for a request, or undefined when none is wanted so far. */
  async header(scopes: readonly string[], options: Abortable): Promise<string | undefined> {
    const credential = await this.#credential(options);
    if (credential.kind === "bearer") return `Bearer ${credential.token}`;
    if (this.#demand.kind === "bearer") return this.#token(this.#demand, scopes, options);
    return this.#demand.kind === "basic" && credential.kind === "basic" ? basic(credential) : undefined;
  }

  /** Learns from a refused request; the header to try again with, or undefined when there is nothing new to offer. */
  async challenged(refused: Refused, options: Abortable): Promise<string | undefined> {
    const credential = await this.#credential(options);
    if (credential.kind === "bearer") return undefined;
    const { demand, asked } = this.#read(refused.response);
    if (demand.kind === "unknown") return undefined;
    this.#demand = demand;
    if (demand.kind === "basic") return credential.kind === "basic" ? basic(credential) : undefined;
    const wanted = mergeScopes([...refused.scopes, ...asked]);
    const key = buildCacheKey(demand, wanted);
    const held = this.#tokens.get(key);
    // Of many requests that were refused at once only the first fetches a token; the others find it here.
    if (held && (await orAborted(held, options)).header === refused.header) this.#tokens.delete(key);
    const header = await this.#token(demand, wanted, options);
    // What the registry asked for beyond our guess is what this operation needs from now on.
    const token = this.#tokens.get(key);
    if (token) this.#keep(buildCacheKey(demand, mergeScopes(refused.scopes)), token);
    return header;
  }

  #credential(options: Abortable): Promise<Credential> {
    return this.#options.credentials.find(this.#options.address.host, options);
  }

  #read(response: WireResponse): { demand: Demand; asked: readonly string[] } {
    const value = response.headers["www-authenticate"];
    const challenges = readChallenges(Array.isArray(value) ? value.join(", ") : (value ?? ""));
    const bearer = challenges.find((each) => each.scheme === "bearer");
    if (bearer) {
      const realm = this.#realm(bearer.parameters["realm"] ?? "");
      const asked = (bearer.parameters["scope"] ?? "").split(" ").filter((each) => each !== "");
      return { demand: { kind: "bearer", realm, service: bearer.parameters["service"] }, asked };
    }
    if (challenges.some((each) => each.scheme === "basic")) return { demand: { kind: "basic" }, asked: [] };
    return { demand: { kind: "unknown" }, asked: [] };
  }

  /** Credentials go where the registry says, but never in the clear to a host that is not the registry's own. */
  #realm(text: string): URL {
    const { address } = this.#options;
    const url = URL.parse(text, address.origin);
    if (!url || !/^https?:$/.test(url.protocol))
      throw new Fault("unavailable", `registry ${address.host} names no usable token service`);
    const sameHost = url.origin === address.origin || isLoopbackHost(url.hostname);
    if (url.protocol === "http:" && !sameHost)
      throw new Fault(
        "forbidden",
        `registry ${address.host} wants the credentials sent in the clear to ${url.host}; refused`,
      );
    return url;
  }

  async #token(
    demand: TokenService & { readonly kind: "bearer" },
    scopes: readonly string[],
    options: Abortable,
  ): Promise<string> {
    const key = buildCacheKey(demand, mergeScopes(scopes));
    const held = this.#tokens.get(key);
    const now = this.#options.now ?? Date.now;
    if (held) {
      const token = await orAborted(held, options);
      if (token.until > now()) return token.header;
    }
    if (this.#tokens.get(key) === held) this.#keep(key, this.#exchange(demand, mergeScopes(scopes)));
    const fresh = this.#tokens.get(key) ?? this.#exchange(demand, mergeScopes(scopes));
    return (await orAborted(fresh, options)).header;
  }

  #keep(key: string, token: Promise<HeldToken>): void {
    if (this.#tokens.size >= heldTokens) this.#tokens.clear();
    this.#tokens.set(key, token);
    token.catch(() => {
      if (this.#tokens.get(key) === token) this.#tokens.delete(key);
    });
  }

  /** Shared by several callers, so it has a deadline of its own instead of one caller's signal. */
  async #exchange(demand: TokenService, scopes: readonly string[]): Promise<HeldToken> {
    const signal = AbortSignal.timeout(60_000);
    const started = (this.#options.now ?? Date.now)();
    try {
      const credential = await this.#credential({ signal });
      const response = await this.#options.send(tokenRequest(demand, scopes, credential), { signal });
      if (response.status !== 200) throw await readFault(response, `token service ${demand.realm.host}`);
      const answer = readAnswer(await readBody(response, tokenAnswerBytes), demand.realm.host);
      // A token is used until a tenth of its life, at most half a minute, is left.
      const lifeMs = (answer.expires_in ?? defaultLifetimeS) * 1000;
      const until = started + lifeMs - Math.min(lifeMs / 10, 30_000);
      return { header: `Bearer ${answer.token || (answer.access_token ?? "")}`, until };
    } catch (error) {
      throw toFault(error, `signing in to registry ${this.#options.address.host}`);
    }
  }
}

function basic({ username, password }: { readonly username: string; readonly password: string }): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

function buildCacheKey(demand: TokenService, scopes: readonly string[]): string {
  return [demand.realm.href, demand.service ?? "", ...scopes].join("\n");
}

/** One entry per resource with its actions merged, sorted, so that equal needs have equal keys. */
function mergeScopes(scopes: readonly string[]): string[] {
  const actions = new Map<string, Set<string>>();
  for (const scope of scopes) {
    const cut = scope.lastIndexOf(":");
    const resource = scope.slice(0, cut);
    const known = actions.get(resource) ?? new Set();
    for (const action of scope.slice(cut + 1).split(",")) known.add(action);
    actions.set(resource, known);
  }
  return [...actions].map(([resource, set]) => `${resource}:${[...set].sort().join(",")}`).sort();
}

function tokenRequest(demand: TokenService, scopes: readonly string[], credential: Credential): WireRequest {
  const url = new URL(demand.realm);
  const common = { scopes: [], repeatable: true, url } as const;
  if (credential.kind === "refresh") {
    const form = new URLSearchParams({
      grant_type: "refresh_token",
      client_id: "cocoon",
      refresh_token: credential.token,
      ...(demand.service === undefined ? {} : { service: demand.service }),
      ...(scopes.length === 0 ? {} : { scope: scopes.join(" ") }),
    });
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return { ...common, method: "POST", headers, body: Buffer.from(form.toString()) };
  }
  if (demand.service !== undefined) url.searchParams.set("service", demand.service);
  for (const scope of scopes) url.searchParams.append("scope", scope);
  return {
    ...common,
    method: "GET",
    ...(credential.kind === "basic" ? { headers: { authorization: basic(credential) } } : {}),
  };
}

function readAnswer(body: Buffer, host: string): z.output<typeof answerSchema> {
  try {
    return answerSchema.parse(JSON.parse(body.toString("utf8")));
  } catch {
    // Not quoted: a malformed answer may still hold a token.
    throw new Fault("unavailable", `token service ${host} gave an answer that is not a token`);
  }
}
