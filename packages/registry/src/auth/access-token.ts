/**
 * Short-lived tokens of the docker token flow: what a stored token may do, narrowed to what the client requested,
 * signed by this registry. They die with the stored token they came from.
 */
import { createHmac } from "node:crypto";
import * as z from "zod";
import { isSameSecret } from "@cocoon/contract/session";
import { tryReadScope, writeScope, type Scope } from "./access.ts";

const prefix = "epoch1.";
const wire = z.object({
  /** Number of the stored token it came from; 0 for the static one, -1 for an anonymous caller. */
  sub: z.int(),
  /** Fingerprint of the secret it came from: a number can be given again, a secret cannot. */
  parent: z.string(),
  scopes: z.array(z.string()),
  exp: z.int(),
});

export interface AccessToken {
  readonly subject: number;
  readonly parent: string;
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

  sign({ subject, parent, scopes, expiresAtMs }: AccessToken): string {
    const content = {
      sub: subject,
      parent,
      scopes: scopes.map(writeScope),
      exp: Math.floor(expiresAtMs / 1_000),
    };
    const payload = Buffer.from(JSON.stringify(content)).toString("base64url");
    return `${prefix}${payload}.${this.#mac(payload)}`;
  }

  /** Undefined when it is not ours, was changed or has expired. */
  tryRead(text: string, nowMs: number): AccessToken | undefined {
    if (!text.startsWith(prefix)) return undefined;
    const [payload = "", mac = "", ...rest] = text.slice(prefix.length).split(".");
    if (rest.length > 0 || !isSameSecret(this.#mac(payload), mac)) return undefined;
    const content = wire.safeParse(JSON.parse(Buffer.from(payload, "base64url").toString("utf8")));
    if (!content.success) return undefined; // signed by an older version
    const { sub, parent, scopes, exp } = content.data;
    if (exp * 1_000 <= nowMs) return undefined;
    const known = scopes.map(tryReadScope).filter((scope) => scope !== undefined);
    return { subject: sub, parent, scopes: known, expiresAtMs: exp * 1_000 };
  }

  #mac(payload: string): string {
    return createHmac("sha256", this.#secret).update(`access\n${payload}`).digest("base64url");
  }
}
