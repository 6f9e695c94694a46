/**
 * Short-lived tokens of the docker token flow: what a stored token may do, narrowed to what the client asked for,
 * signed by this registry. They die with the stored token they came from.
 */
import { createHmac } from "node:crypto";
import * as z from "zod";
import { isSameSecret } from "@cocoon/contract/session";
import { tryReadScope, writeScope, type Scope } from "./access.ts";

const prefix = "epoch1.";
const wire = z.object({
  /** Stored token it came from; 0 for the static one, -1 for anybody. */
  sub: z.int(),
  scopes: z.array(z.string()),
  exp: z.int(),
});

export interface AccessToken {
  readonly subject: number;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: number;
}

export const staticSubject = 0;
export const anonymousSubject = -1;

export class AccessTokens {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  sign({ subject, scopes, expiresAtMs }: AccessToken): string {
    const content = { sub: subject, scopes: scopes.map(writeScope), exp: Math.floor(expiresAtMs / 1_000) };
    const payload = Buffer.from(JSON.stringify(content)).toString("base64url");
    return `${prefix}${payload}.${this.#mac(payload)}`;
  }

  /** Undefined when it is not ours, was changed or has expired. */
  tryRead(text: string, nowMs: number): AccessToken | undefined {
    if (!text.startsWith(prefix)) return undefined;
    const [payload = "", mac = "", ...rest] = text.slice(prefix.length).split(".");
    if (rest.length > 0 || !isSameSecret(this.#mac(payload), mac)) return undefined;
    const { sub, scopes, exp } = wire.parse(JSON.parse(Buffer.from(payload, "base64url").toString("utf8")));
    if (exp * 1_000 <= nowMs) return undefined;
    const known = scopes.map(tryReadScope).filter((scope) => scope !== undefined);
    return { subject: sub, scopes: known, expiresAtMs: exp * 1_000 };
  }

  #mac(payload: string): string {
    return createHmac("sha256", this.#secret).update(`access\n${payload}`).digest("base64url");
  }
}
