/**
 * Who is asking. A secret may come as a bearer token, as the password of basic authentication (any user name), or
 * exchanged for a short-lived token at /v2/token; all three end in the same caller.
 */
import { messageOf, type Logger } from "@cocoon/core";
import { isSameSecret } from "@cocoon/contract/session";
import { actions, allows, everything, intersect, type Caller, type Need, type Scope } from "./access.ts";
import { AccessTokens, anonymousSubject, staticSubject } from "./access-token.ts";
import type { StoredToken, TokenStore } from "./token-store.ts";

export interface AuthOptions {
  readonly tokens: TokenStore;
  readonly secret: Uint8Array;
  /** Pushes and pulls anything, administers nothing. */
  readonly staticToken: string | undefined;
  readonly anonymousPull: boolean;
  /** /v2/token hands back the secret it was given, as epoch does. */
  readonly echoTokens: boolean;
  readonly log: Logger;
  readonly now?: () => number;
}

export interface TokenAnswer {
  readonly token: string;
  readonly expiresInSeconds: number;
}

const accessTokenSeconds = 3_600;

export class Authenticator {
  readonly #options: AuthOptions;
  readonly #accessTokens: AccessTokens;
  readonly #now: () => number;

  constructor(options: AuthOptions) {
    this.#options = options;
    this.#accessTokens = new AccessTokens(options.secret);
    this.#now = options.now ?? Date.now;
  }

  get anonymous(): Caller {
    const scopes: Scope[] = this.#options.anonymousPull
      ? [{ kind: "repository", pattern: "*", actions: ["pull"] }, { kind: "catalog" }]
      : [];
    return { id: "anonymous", anonymous: true, scopes };
  }

  /** The caller behind an Authorization header; undefined when it does not hold. No header: anonymous. */
  authenticate(authorization: string | undefined): Caller | undefined {
    const given = readAuthorization(authorization);
    if (given.kind === "none") return this.anonymous;
    return given.kind === "secret" ? this.#bySecret(given.secret) : undefined;
  }

  /** Whether a new, wider token of the same owner would be allowed: then it is worth to log in again. */
  couldAllow(authorization: string | undefined, need: Need): boolean {
    const given = readAuthorization(authorization);
    if (given.kind !== "secret") return true;
    const access = this.#accessTokens.tryRead(given.secret, this.#now());
    if (!access) return false;
    return allows(this.#ownScopes(access.subject), need);
  }

  #ownScopes(subject: number): readonly Scope[] {
    if (subject === anonymousSubject) return this.anonymous.scopes;
    if (subject === staticSubject) return everything;
    return this.#options.tokens.byId(subject)?.scopes ?? [];
  }

  /** The token flow: a secret, if any, for a token of the asked scopes. Undefined when the secret is wrong. */
  exchange(secret: string | undefined, wanted: readonly Scope[]): TokenAnswer | undefined {
    if (this.#options.echoTokens) return this.#echo(secret);
    const caller = secret === undefined ? this.anonymous : this.#bySecret(secret);
    if (!caller || (caller.anonymous && caller.scopes.length === 0)) return undefined;
    const scopes = intersect(caller.scopes, wanted);
    const expiresAtMs = this.#now() + accessTokenSeconds * 1_000;
    const token = this.#accessTokens.sign({ subject: this.#subjectOf(secret), scopes, expiresAtMs });
    return { token, expiresInSeconds: accessTokenSeconds };
  }

  #echo(secret: string | undefined): TokenAnswer | undefined {
    if (secret !== undefined && !this.#bySecret(secret)) return undefined;
    return { token: secret ?? "", expiresInSeconds: accessTokenSeconds };
  }

  #subjectOf(secret: string | undefined): number {
    if (secret === undefined) return anonymousSubject;
    return this.#options.tokens.byText(secret)?.id ?? staticSubject;
  }

  #bySecret(secret: string): Caller | undefined {
    const { staticToken, tokens } = this.#options;
    if (staticToken !== undefined && isSameSecret(secret, staticToken)) return staticCaller;
    const stored = tokens.byText(secret);
    if (stored) return this.#storedCaller(stored, stored.scopes);
    const access = this.#accessTokens.tryRead(secret, this.#now());
    return access && this.#byAccessToken(access.subject, access.scopes);
  }

  /** Narrowed once more by what the stored token may do now: it may have been deleted or have expired. */
  #byAccessToken(subject: number, scopes: readonly Scope[]): Caller | undefined {
    if (subject === anonymousSubject)
      return { ...this.anonymous, scopes: intersect(this.anonymous.scopes, scopes) };
    if (subject === staticSubject)
      return this.#options.staticToken === undefined ? undefined : { ...staticCaller, scopes };
    const stored = this.#options.tokens.byId(subject);
    return stored && this.#storedCaller(stored, intersect(stored.scopes, scopes));
  }

  #storedCaller(token: StoredToken, scopes: readonly Scope[]): Caller {
    this.#options.tokens.noteUse(token).catch((error: unknown) => {
      this.#options.log.warn({ error: messageOf(error) }, "token use not noted");
    });
    return { id: `token:${token.id}`, anonymous: false, scopes };
  }
}

const staticCaller: Caller = { id: "static", anonymous: false, scopes: everything };

type Given = { kind: "none" } | { kind: "malformed" } | { kind: "secret"; secret: string };

/** An empty bearer token counts as none: that is what epoch gives out for anonymous pulls. */
export function readAuthorization(header: string | undefined): Given {
  if (header === undefined) return { kind: "none" };
  const [scheme = "", value = ""] = header.split(/ +/, 2);
  if (scheme.toLowerCase() === "bearer")
    return value === "" ? { kind: "none" } : { kind: "secret", secret: value };
  if (scheme.toLowerCase() !== "basic") return { kind: "malformed" };
  const text = Buffer.from(value, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? { kind: "malformed" } : { kind: "secret", secret: text.slice(colon + 1) };
}

/** Scopes as a docker client asks for them; what we do not know is left out. */
export function readWantedScopes(texts: readonly string[]): Scope[] {
  return texts
    .flatMap((text) => text.split(" "))
    .map(tryWantedScope)
    .filter((scope) => scope !== undefined);
}

function tryWantedScope(text: string): Scope | undefined {
  if (text === "registry:catalog:*") return { kind: "catalog" };
  const [type, name = "", wanted = "", ...rest] = text.split(":");
  if (type !== "repository" || rest.length > 0 || name.includes("*")) return undefined;
  const words = wanted.split(",");
  return {
    kind: "repository",
    pattern: name,
    actions: words.includes("*") ? [...actions] : actions.filter((action) => words.includes(action)),
  };
}
