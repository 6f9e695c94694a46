/**
 * Tokens at rest. The text of a token, 64 hex digits, is shown once; only its SHA-256 is kept. All tokens are held in
 * memory as well, so that a request costs a look-up and no read.
 */
import { hash, randomBytes } from "node:crypto";
import * as z from "zod";
import { Fault } from "@cocoon/core";
import { folders, lastPart, layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import { scopeSchema, type Scope } from "./access.ts";

const wire = z.object({
  id: z.int().positive(),
  name: z.string(),
  hash: z.string(),
  scopes: z.array(scopeSchema),
  createdBy: z.string(),
  createdAt: z.string(),
  expiresAt: z.string().optional(),
  lastUsed: z.string().optional(),
});

export type StoredToken = Readonly<z.infer<typeof wire>>;

export interface NewToken {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdBy: string;
  /** Undefined: valid until it is deleted. */
  readonly lifetimeMs: number | undefined;
}

export interface CreatedToken {
  /** The only time it is ever seen. */
  readonly text: string;
  readonly token: StoredToken;
}

/** How stale the noted time of the last use may be: a busy token is not written at every request. */
const lastUsedStepMs = 60_000;
const maxTokens = 10_000;

export class TokenStore implements AsyncDisposable {
  readonly #storage: Storage;
  readonly #now: () => number;
  readonly #byHash = new Map<string, StoredToken>();
  readonly #byId = new Map<number, StoredToken>();
  /** Notes of use that are being written. */
  readonly #notes = new Set<Promise<void>>();
  #lastId = 0;

  private constructor(storage: Storage, now: () => number) {
    this.#storage = storage;
    this.#now = now;
  }

  static async open(storage: Storage, now: () => number = Date.now): Promise<TokenStore> {
    const store = new TokenStore(storage, now);
    for await (const { key } of storage.list(folders.tokens)) {
      const content = await storage.get(key);
      const parsed = content && wire.safeParse(JSON.parse(content.toString("utf8")));
      if (!parsed) continue;
      if (!parsed.success) throw new Fault("internal", `the record of token ${lastPart(key)} is damaged`);
      store.#remember(parsed.data);
    }
    return store;
  }

  list(): StoredToken[] {
    return [...this.#byId.values()].sort((a, b) => a.id - b.id);
  }

  byId(id: number): StoredToken | undefined {
    return this.#valid(this.#byId.get(id));
  }

  /** The token with that text, if it is known and has not expired. */
  byText(text: string): StoredToken | undefined {
    return this.#valid(this.#byHash.get(hash("sha256", text, "hex")));
  }

  async create({ name, scopes, createdBy, lifetimeMs }: NewToken): Promise<CreatedToken> {
    if (this.#byId.size >= maxTokens)
      throw new Fault("forbidden", `there are ${maxTokens} tokens; delete some first`);
    const text = randomBytes(32).toString("hex");
    const nowMs = this.#now();
    const token: StoredToken = {
      id: (this.#lastId += 1),
      name,
      hash: hash("sha256", text, "hex"),
      scopes: [...scopes],
      createdBy,
      createdAt: new Date(nowMs).toISOString(),
      ...(lifetimeMs === undefined ? {} : { expiresAt: new Date(nowMs + lifetimeMs).toISOString() }),
    };
    await this.#write(token);
    this.#remember(token);
    return { text, token };
  }

  async delete(id: number): Promise<boolean> {
    const token = this.#byId.get(id);
    if (token) this.#forget(token);
    return this.#storage.delete(layout.token(id));
  }

  /** Notes that the token was used, now and then. Failing to note it must not fail the request. */
  async noteUse(token: StoredToken): Promise<void> {
    const nowMs = this.#now();
    if (token.lastUsed !== undefined && nowMs - Date.parse(token.lastUsed) < lastUsedStepMs) return;
    const used = { ...token, lastUsed: new Date(nowMs).toISOString() };
    this.#remember(used);
    const note = this.#writeUse(used);
    this.#notes.add(note);
    try {
      await note;
    } finally {
      this.#notes.delete(note);
    }
  }

  /** Done when every use that was noted is written: nothing is written after it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#notes);
  }

  async #writeUse(used: StoredToken): Promise<void> {
    await this.#write(used);
    if (!this.#byId.has(used.id)) await this.#storage.delete(layout.token(used.id)); // deleted meanwhile
  }

  #valid(token: StoredToken | undefined): StoredToken | undefined {
    if (token?.expiresAt !== undefined && Date.parse(token.expiresAt) <= this.#now()) return undefined;
    return token;
  }

  #remember(token: StoredToken): void {
    this.#byHash.set(token.hash, token);
    this.#byId.set(token.id, token);
    this.#lastId = Math.max(this.#lastId, token.id);
  }

  #forget(token: StoredToken): void {
    this.#byHash.delete(token.hash);
    this.#byId.delete(token.id);
  }

  #write(token: StoredToken): Promise<void> {
    return this.#storage.put(layout.token(token.id), Buffer.from(`${JSON.stringify(token)}\n`));
  }
}
