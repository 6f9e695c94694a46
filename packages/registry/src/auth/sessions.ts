/** People who logged in: the session cookie of epoch, and what it allows. */
import type { IncomingMessage } from "node:http";
import { signSession, verifySession } from "@cocoon/contract/session";
import { readCookie } from "../http/cookies.ts";
import { administration, type Caller } from "./access.ts";
import type { Person } from "./sso.ts";

export const sessionCookie = "epoch_session";
export const sessionSeconds = 86_400;

export class Sessions {
  readonly #key: Uint8Array;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  sign(person: Person): Promise<string> {
    const expiresAt = Math.floor(Date.now() / 1_000) + sessionSeconds;
    return signSession({ ...person, expiresAt }, this.#key);
  }

  async person(request: IncomingMessage): Promise<Person | undefined> {
    const cookie = readCookie(request, sessionCookie);
    if (cookie === undefined) return undefined;
    return verifySession(cookie, this.#key, { now: Math.floor(Date.now() / 1_000), refuseEndless: true });
  }

  /** A logged-in person, who may do everything; undefined without a session, or when another site sent the request. */
  async caller(request: IncomingMessage): Promise<Caller | undefined> {
    const person = await this.person(request);
    if (!person || !isFromOurPage(request)) return undefined;
    return { id: `user:${person.email}`, anonymous: false, scopes: administration };
  }
}

/** Browsers say which page a changing request comes from; other sites must not ride on the cookie. */
function isFromOurPage(request: IncomingMessage): boolean {
  if (request.method === "GET" || request.method === "HEAD") return true;
  const { origin, host } = request.headers;
  return origin === undefined || URL.parse(origin)?.host === host;
}
