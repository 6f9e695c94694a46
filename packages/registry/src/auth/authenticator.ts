/**
 * Who the caller is. A secret may come as a bearer token, as the password of basic authentication (any user name), or
 * exchanged for a short-lived token at /v2/token; all three end in the same caller.
 */
import { hash } from "node:crypto";
import { getErrorMessage, type Logger } from "@cocoon/core";
import { isSameSecret } from "@cocoon/contract/session";
import {
  allows,
  installation,
  intersect,
  tryReadScope,
  type Caller,
  type Need,
  type Scope,
} from "./access.ts";
import { AccessTokens, anonymousSubject, staticSubject, type AccessToken } from "./access-token.ts";
import type { StoredToken, TokenStore } from "./token-store.ts";

interface AuthOptions {
  readonly tokens: TokenStore;
  readonly secret: Uint8Array;
  readonly staticToken: string | undefined;
  readonly anonymousPull: boolean;
  /** /v2/token hands back the secret it was given, as epoch does. */
  readonly echoTokens: boolean;
  readonly log: Logger;
}

interface Grant {
  readonly caller: Caller;
  readonly subject: number;
  readonly parent: string;
  readonly expiresAtMs: number;
}

interface TokenAnswer {
  readonly token: string;
  readonly expiresInSeconds: number;
}

const accessTokenSeconds = 3_600;

export class Authenticator {
  readonly #options: AuthOptions;
  readonly #accessTokens: AccessTokens;

  constructor(options: AuthOptions) {
    this.#options = options;
    this.#accessTokens = new AccessTokens(options.secret);
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

  /** Whether a new, wider token of the same parent would be allowed: then the client should get one. */
  couldAllow(authorization: string | undefined, need: Need): boolean {
    const given = readAuthorization(authorization);
    if (given.kind !== "secret") return true;
    const access = this.#accessTokens.tryRead(given.secret, Date.now());
    const parent = access && this.#findParent(access);
    return parent !== undefined && allows(parent.caller.scopes, need);
  }

  /** The token flow: a secret, if any, for a token of the requested scopes. Undefined when the secret is wrong. */
  exchange(secret: string | undefined, wanted: readonly Scope[]): TokenAnswer | undefined {
    if (this.#options.echoTokens) return this.#echo(secret);
    const grant = secret === undefined ? this.#anonymousGrant() : this.#findGrant(secret);
    if (!grant || (grant.caller.anonymous && grant.caller.scopes.length === 0)) return undefined;
    const scopes = intersect(grant.caller.scopes, wanted);
    // A token that was itself exchanged does not live longer by being exchanged again.
    const expiresAtMs = Math.min(Date.now() + accessTokenSeconds * 1_000, grant.expiresAtMs);
    const token = this.#accessTokens.sign({
      subject: grant.subject,
      parent: grant.parent,
      scopes,
      expiresAtMs,
    });
    return { token, expiresInSeconds: Math.floor((expiresAtMs - Date.now()) / 1_000) };
  }

  #echo(secret: string | undefined): TokenAnswer | undefined {
    if (secret !== undefined && !this.#bySecret(secret)) return undefined;
    return { token: secret ?? "", expiresInSeconds: accessTokenSeconds };
  }

  #bySecret(secret: string): Caller | undefined {
    return this.#findGrant(secret)?.caller;
  }

  #anonymousGrant(): Grant {
    return { caller: this.anonymous, subject: anonymousSubject, parent: "", expiresAtMs: Infinity };
  }

  /** What a secret stands for: the static token, a stored one, or one that was exchanged for either. */
  #findGrant(secret: string): Grant | undefined {
    const { staticToken, tokens } = this.#options;
    if (staticToken !== undefined && isSameSecret(secret, staticToken)) return this.#staticGrant(staticToken);
    const stored = tokens.byText(secret);
    if (stored) return this.#storedGrant(stored);
    const access = this.#accessTokens.tryRead(secret, Date.now());
    const parent = access && this.#findParent(access);
    if (!parent) return undefined;
    // Narrowed once more by what the parent may do now.
    const caller = { ...parent.caller, scopes: intersect(parent.caller.scopes, access.scopes) };
    return { ...parent, caller, expiresAtMs: access.expiresAtMs };
  }

  /** Undefined when the secret that the token came from was deleted, replaced or has expired. */
  #findParent({ subject, parent }: AccessToken): Grant | undefined {
    const { staticToken, tokens } = this.#options;
    if (subject === anonymousSubject) return this.#anonymousGrant();
    const stored = subject === staticSubject ? undefined : tokens.byId(subject);
    const grant =
      subject === staticSubject
        ? staticToken === undefined
          ? undefined
          : this.#staticGrant(staticToken)
        : stored && this.#storedGrant(stored);
    return grant?.parent === parent ? grant : undefined;
  }

  #staticGrant(staticToken: string): Grant {
    const parent = computeFingerprint(hash("sha256", staticToken, "hex"));
    return { caller: staticCaller, subject: staticSubject, parent, expiresAtMs: Infinity };
  }

  #storedGrant(token: StoredToken): Grant {
    return {
      caller: this.#storedCaller(token, token.scopes),
      subject: token.id,
      parent: computeFingerprint(token.hash),
      expiresAtMs: token.expiresAt === undefined ? Infinity : Date.parse(token.expiresAt),
    };
  }

  #storedCaller(token: StoredToken, scopes: readonly Scope[]): Caller {
    this.#options.tokens.recordUse(token).catch((error: unknown) => {
      this.#options.log.warn({ error: getErrorMessage(error) }, "use of a token could not be recorded");
    });
    return { id: `token:${token.id}`, anonymous: false, scopes };
  }
}

/** Names a secret in signed tokens without helping to guess it. */
function computeFingerprint(hashed: string): string {
  return hash("sha256", `fingerprint ${hashed}`, "hex").slice(0, 16);
}

const staticCaller: Caller = { id: "static", anonymous: false, scopes: installation };

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

/** Scopes as a docker client requests them; unknown ones are left out. */
export function readWantedScopes(texts: readonly string[]): Scope[] {
  return texts
    .flatMap((text) => text.split(" "))
    .map(tryWantedScope)
    .filter((scope) => scope !== undefined);
}

/** Of repositories by their names, not by patterns. */
function tryWantedScope(text: string): Scope | undefined {
  const scope = tryReadScope(text);
  const isAllowed =
    scope?.kind === "catalog" || (scope?.kind === "repository" && !scope.pattern.includes("*"));
  return isAllowed ? scope : undefined;
}
