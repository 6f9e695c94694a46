/**
 * Names of upload sessions. A name proves by itself, with a MAC, that this registry gave it out for that repository:
 * opening a session costs no write, and one that was opened before a restart is still known after it.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isSameSecret } from "@cocoon/contract/session";
import type { RepositoryName } from "../names.ts";

export interface SessionId {
  /** Which run of the server gave it out. */
  readonly run: string;
  readonly startedAtMs: number;
  /** Everything before the MAC; also the name of the session's file. */
  readonly stem: string;
  readonly text: string;
}

const grammar = /^([0-9a-f]{12})-([0-9a-z]{1,11})-[0-9a-f]{32}-[A-Za-z0-9_-]{22}$/;

export function newRun(): string {
  return randomBytes(6).toString("hex");
}

export class SessionIds {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  create(name: RepositoryName, { run, nowMs }: { run: string; nowMs: number }): SessionId {
    const stem = `${run}-${Math.floor(nowMs).toString(36)}-${randomBytes(16).toString("hex")}`;
    return { run, startedAtMs: nowMs, stem, text: `${stem}-${this.#mac(name, stem)}` };
  }

  /** Undefined for anything that was not made here for that repository. */
  tryRead(name: RepositoryName, text: string): SessionId | undefined {
    const match = grammar.exec(text);
    if (!match?.[1] || !match[2]) return undefined;
    const stem = text.slice(0, -23);
    if (!isSameSecret(this.#mac(name, stem), text.slice(-22))) return undefined;
    return { run: match[1], startedAtMs: Number.parseInt(match[2], 36), stem, text };
  }

  #mac(name: RepositoryName, stem: string): string {
    return createHmac("sha256", this.#secret)
      .update(`upload\n${name}\n${stem}`)
      .digest("base64url")
      .slice(0, 22);
  }
}
