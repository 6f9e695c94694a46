/**
 * Signing in at an OpenID Connect provider: authorization code with PKCE. What comes back is an ID token, which the API server
 * checks, as it does with every token; here nothing is trusted and nothing is kept but a sealed cookie for ten minutes.
 *
 *   the page asks for `start`  → cookie with state and verifier, address of the provider
 *   the provider sends the browser to /oidc?code&state, which is our page
 *   the page asks for `finish` → the code is exchanged for the ID token
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { Fault, tryParseJson, withDeadline } from "@cocoon/core";
import * as z from "zod";
import { requestText } from "../http/request-text.ts";
import { deriveSealingKey, sealText, tryOpenText } from "./seal.ts";

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  readonly scopes: string;
  readonly caFile: string | undefined;
  readonly key: Uint8Array;
}

export interface OidcStart {
  readonly url: string;
  /** To be kept by the browser until it comes back. */
  readonly sealed: string;
}

const answerMs = 15_000;
const maxAnswerLength = 256 * 1024;
const waitMs = 10 * 60_000;

const discoverySchema = z.object({
  issuer: z.string(),
  authorization_endpoint: z.url(),
  token_endpoint: z.url(),
});
const tokenSchema = z.object({ id_token: z.string().min(8).max(12_000) });
const waitingSchema = z.object({
  state: z.string(),
  verifier: z.string(),
  redirectUri: z.string(),
  endsAt: z.number(),
});

type Discovery = z.output<typeof discoverySchema>;

export class OidcLogin {
  readonly #settings: OidcSettings;
  readonly #issuer: URL;
  readonly #key: Buffer;
  readonly #ca: Buffer | undefined;
  readonly #now: () => number;
  #discovery: Discovery | undefined;

  constructor(settings: OidcSettings, now: () => number = Date.now) {
    this.#settings = settings;
    const issuer = URL.parse(settings.issuer);
    if (issuer === null || !isProtected(issuer))
      throw new Fault("invalid", `--oidc-issuer: "${settings.issuer.slice(0, 200)}" is not an https address`);
    this.#issuer = issuer;
    this.#key = deriveSealingKey(settings.key, "cocoon-dashboard oidc");
    this.#ca = settings.caFile ? readFileSync(settings.caFile) : undefined;
    this.#now = now;
  }

  /** What a button calls it. */
  get name(): string {
    return this.#issuer.host;
  }

  async start(redirectUri: string, signal: AbortSignal): Promise<OidcStart> {
    const { authorization_endpoint: endpoint } = await this.#discover(signal);
    const [state, verifier] = [randomBytes(24).toString("base64url"), randomBytes(48).toString("base64url")];
    const url = new URL(endpoint);
    const values = {
      response_type: "code",
      client_id: this.#settings.clientId,
      redirect_uri: redirectUri,
      scope: this.#settings.scopes,
      state,
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
    const waiting = { state, verifier, redirectUri, endsAt: this.#now() + waitMs };
    return { url: url.href, sealed: sealText(this.#key, JSON.stringify(waiting), "oidc") };
  }

  /** The ID token. `unauthorized` when the browser did not start this login, or the provider refuses the code. */
  async finish(
    { code, state, sealed }: { readonly code: string; readonly state: string; readonly sealed: string },
    signal: AbortSignal,
  ): Promise<string> {
    const waiting = waitingSchema.safeParse(tryParseJson(tryOpenText(this.#key, sealed, "oidc") ?? ""));
    if (!waiting.success || waiting.data.endsAt < this.#now() || !isEqual(waiting.data.state, state))
      throw new Fault(
        "unauthorized",
        "this login was not started in this browser, or too long ago; sign in again",
      );
    const { token_endpoint: endpoint } = await this.#discover(signal);
    const { clientId, clientSecret } = this.#settings;
    const body = new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: waiting.data.redirectUri,
      client_id: clientId,
      code_verifier: waiting.data.verifier,
      ...(clientSecret ? { client_secret: clientSecret } : {}),
    });
    const { status, text } = await this.#request(new URL(endpoint), signal, body.toString());
    if (status >= 400 && status < 500)
      throw new Fault("unauthorized", `${this.name} refused the login: ${readRefusal(text)}`);
    const answer = tokenSchema.safeParse(tryParseJson(text));
    if (status !== 200 || !answer.success)
      throw new Fault("unavailable", `${this.name} answered ${status} without an ID token`);
    return answer.data.id_token;
  }

  async #discover(signal: AbortSignal): Promise<Discovery> {
    if (this.#discovery) return this.#discovery;
    const base = this.#issuer.href.replace(/\/$/, "");
    const { status, text } = await this.#request(new URL(`${base}/.well-known/openid-configuration`), signal);
    const found = discoverySchema.safeParse(status === 200 ? tryParseJson(text) : undefined);
    if (!found.success)
      throw new Fault(
        "unavailable",
        `${this.name} answered ${status} when asked for its OpenID configuration`,
      );
    const { issuer, authorization_endpoint: first, token_endpoint: second } = found.data;
    if (issuer.replace(/\/$/, "") !== base || ![first, second].every((each) => isProtected(new URL(each))))
      throw new Fault(
        "unavailable",
        `the OpenID configuration of ${this.name} is that of another issuer, or without TLS`,
      );
    this.#discovery = found.data;
    return found.data;
  }

  #request(url: URL, signal: AbortSignal, body?: string) {
    return requestText({
      url,
      ...(body === undefined
        ? {}
        : { method: "POST", body, headers: { "content-type": "application/x-www-form-urlencoded" } }),
      ca: this.#ca,
      maxLength: maxAnswerLength,
      signal: withDeadline(signal, answerMs),
    });
  }
}

/** Without TLS only on this machine. */
function isProtected({ protocol, hostname }: URL): boolean {
  return (
    protocol === "https:" ||
    (protocol === "http:" && /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(hostname))
  );
}

function isEqual(left: string, right: string): boolean {
  const [first, second] = [left, right].map((text) => createHash("sha256").update(text).digest()) as [
    Buffer,
    Buffer,
  ];
  return timingSafeEqual(first, second);
}

const refusalSchema = z.object({ error: z.string(), error_description: z.string().optional() });

function readRefusal(text: string): string {
  const refusal = refusalSchema.safeParse(tryParseJson(text));
  if (!refusal.success) return "it gave no reason";
  return (refusal.data.error_description ?? refusal.data.error).slice(0, 300);
}
