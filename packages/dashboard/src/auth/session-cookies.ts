/**
 * A signed-in user as two cookies, so that any replica serves any request and nothing is stored here:
 *
 *   cocoon_session      who it is and until when: the signed cookie of the contract
 *   cocoon_credential   the user's token for the API server, AES-256-GCM, bound to the session cookie beside it
 *
 * The second is split over `cocoon_credential_1`, `_2`, … where a token is longer than a cookie.
 */
import type { IncomingMessage } from "node:http";
import { signSession, verifySession } from "@cocoon/contract/session";
import { Fault } from "@cocoon/core";
import { deriveSealingKey, sealText, tryOpenText } from "./seal.ts";

export interface SignedIn {
  readonly user: string;
  readonly token: string;
  /** Unix seconds. */
  readonly expiresAt: number;
}

interface CookieOptions {
  readonly key: Uint8Array;
  /** The page is reached over TLS: browsers send the cookies only there. */
  readonly secure: boolean;
}

const sessionCookie = "cocoon_session";
const credentialCookie = "cocoon_credential";
const waitingCookie = "cocoon_oidc";
const pieceLength = 3_500;
const maxPieces = 4;

export class SessionCookies {
  readonly #signingKey: Uint8Array;
  readonly #sealingKey: Buffer;
  readonly #secure: boolean;

  constructor({ key, secure }: CookieOptions) {
    this.#signingKey = key;
    this.#sealingKey = deriveSealingKey(key, "cocoon-dashboard credential");
    this.#secure = secure;
  }

  /** The values of `set-cookie` that sign a user in. */
  async write({ user, token, expiresAt }: SignedIn, now: number): Promise<string[]> {
    const session = await signSession({ user, email: "", expiresAt }, this.#signingKey);
    const sealed = sealText(this.#sealingKey, token, session);
    const pieces = sealed.match(new RegExp(`.{1,${pieceLength}}`, "g")) ?? [];
    if (pieces.length > maxPieces)
      throw new Fault("tooLarge", `the token has ${token.length} characters, more than cookies can hold`);
    const maxAge = Math.max(0, expiresAt - now);
    const named = pieces.map((piece, index) => this.#cookie(pieceName(index), piece, maxAge));
    return [this.#cookie(sessionCookie, session, maxAge), ...named];
  }

  /** The values of `set-cookie` that sign a user out. */
  clear(): string[] {
    const names = [sessionCookie, ...Array.from({ length: maxPieces }, (_, index) => pieceName(index))];
    return names.map((name) => this.#cookie(name, "", 0));
  }

  /** A value that the browser keeps while it signs in elsewhere; "" removes it. */
  writeWaiting(sealed: string, maxAgeSeconds: number): string {
    return this.#cookie(waitingCookie, sealed, maxAgeSeconds);
  }

  readWaiting(request: IncomingMessage): string {
    return readCookies(request).get(waitingCookie) ?? "";
  }

  /** Undefined for a browser that is not signed in, a cookie that was changed, and a session that ended. */
  async read(request: IncomingMessage, now: number): Promise<SignedIn | undefined> {
    const cookies = readCookies(request);
    const session = cookies.get(sessionCookie);
    if (session === undefined) return undefined;
    const verified = await verifySession(session, this.#signingKey, { now, refuseEndless: true });
    if (!verified) return undefined;
    const pieces: string[] = [];
    for (let index = 0; index < maxPieces; index += 1) pieces.push(cookies.get(pieceName(index)) ?? "");
    const token = tryOpenText(this.#sealingKey, pieces.join(""), session);
    return token === undefined ? undefined : { user: verified.user, expiresAt: verified.expiresAt, token };
  }

  #cookie(name: string, value: string, maxAgeSeconds: number): string {
    const flags = this.#secure ? "; Secure" : "";
    return `${name}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${flags}`;
  }
}

function pieceName(index: number): string {
  return index === 0 ? credentialCookie : `${credentialCookie}_${index}`;
}

function readCookies(request: IncomingMessage): Map<string, string> {
  const cookies = new Map<string, string>();
  for (const part of (request.headers.cookie ?? "").split(";")) {
    const equals = part.indexOf("=");
    if (equals < 0) continue;
    const name = part.slice(0, equals).trim();
    if (!cookies.has(name)) cookies.set(name, part.slice(equals + 1).trim());
  }
  return cookies;
}
