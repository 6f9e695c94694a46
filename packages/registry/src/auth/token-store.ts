/**
 * Tokens at rest. The text of a token, 64 hex digits, is shown once; only its SHA-256 is kept. All tokens are held in
 * memory as well, so that a request costs no read.
 */
import { hash, randomBytes } from "node:crypto";
import * as z from "zod";
import { Fault } from "@cocoon/core";
import { folders, lastPart, layout, type StorageKey } from "../storage/layout.ts";
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

interface NewToken {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly createdBy: string;
  readonly lifetimeMs: number | undefined;
}

interface CreatedToken {
  readonly text: string;
  readonly token: StoredToken;
}

/** How stale the noted time of the last use may be: a busy token is not written at every request. */
const lastUsedStepMs = 60_000;
const maxTokens = 10_000;

export class TokenStore implements AsyncDisposable {
  readonly #storage: Storage;
  readonly #byHash = new Map<string, StoredToken>();
  readonly #byId = new Map<number, StoredToken>();
  readonly #readAtMs = new Map<number, number>();
  readonly #uses = new Set<Promise<void>>();
  #lastId = 0;

  private constructor(storage: Storage) {
    this.#storage = storage;
  }

  static async open(storage: Storage): Promise<TokenStore> {
    const store = new TokenStore(storage);
    await store.reload();
    return store;
  }

  /** Reads what other replicas created, used and deleted. */
  async reload(): Promise<void> {
    const found = new Set<number>();
    const known = new Set(this.#byId.keys());
    for await (const { key, modifiedAtMs } of this.#storage.list(folders.tokens)) {
      const id = Number(lastPart(key));
      found.add(id);
      if (this.#readAtMs.get(id) === modifiedAtMs && this.#byId.has(id)) continue;
      const token = await this.#read(key);
      if (!token) continue;
      this.#remember(token);
      this.#readAtMs.set(id, modifiedAtMs);
    }
    // Those created here while the list was read are not in it.
    for (const id of known) if (!found.has(id)) this.#forget(id);
  }

  async #read(key: StorageKey): Promise<StoredToken | undefined> {
    const content = await this.#storage.get(key);
    if (!content) return undefined;
    const parsed = wire.safeParse(JSON.parse(content.toString("utf8")));
    if (!parsed.success) throw new Fault("internal", `the record of token ${lastPart(key)} is damaged`);
    return parsed.data;
  }

  list(): StoredToken[] {
    return [...this.#byId.values()].sort((a, b) => a.id - b.id);
  }

  byId(id: number): StoredToken | undefined {
    return this.#valid(this.#byId.get(id));
  }

  byText(text: string): StoredToken | undefined {
    return this.#valid(this.#byHash.get(hash("sha256", text, "hex")));
  }

  async create({ name, scopes, createdBy, lifetimeMs }: NewToken): Promise<CreatedToken> {
    if (this.#byId.size >= maxTokens)
      throw new Fault("forbidden", `there are ${maxTokens} tokens; delete some first`);
    const text = randomBytes(32).toString("hex");
    const nowMs = Date.now();
    const draft = {
      name,
      hash: hash("sha256", text, "hex"),
      scopes: [...scopes],
      createdBy,
      createdAt: new Date(nowMs).toISOString(),
      ...(lifetimeMs === undefined ? {} : { expiresAt: new Date(nowMs + lifetimeMs).toISOString() }),
    };
    const token = await this.#add(draft);
    this.#remember(token);
    return { text, token };
  }

  /** Under the next free number, also when another replica creates a token at the same time. */
  async #add(draft: Omit<StoredToken, "id">): Promise<StoredToken> {
    for (;;) {
      const token: StoredToken = { id: (this.#lastId += 1), ...draft };
      const content = Buffer.from(`${JSON.stringify(token)}\n`);
      if ((await this.#storage.putIf(layout.token(token.id), content, undefined)) !== undefined) return token;
    }
  }

  async delete(id: number): Promise<boolean> {
    this.#forget(id);
    return this.#storage.delete(layout.token(id));
  }

  async recordUse(token: StoredToken): Promise<void> {
    const nowMs = Date.now();
    if (token.lastUsed !== undefined && nowMs - Date.parse(token.lastUsed) < lastUsedStepMs) return;
    const used = { ...token, lastUsed: new Date(nowMs).toISOString() };
    this.#remember(used);
    const use = this.#writeUse(used);
    this.#uses.add(use);
    try {
      await use;
    } finally {
      this.#uses.delete(use);
    }
  }

  /** Done when every recorded use is written: nothing is written after it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#uses);
  }

  async #writeUse(used: StoredToken): Promise<void> {
    if (this.#storage.isShared && !(await this.#storage.stat(layout.token(used.id)))) return;
    await this.#write(used);
    // Deleted meanwhile, here or by another replica.
    if (!this.#byId.has(used.id)) await this.#storage.delete(layout.token(used.id));
  }

  #valid(token: StoredToken | undefined): StoredToken | undefined {
    if (token?.expiresAt !== undefined && Date.parse(token.expiresAt) <= Date.now()) return undefined;
    return token;
  }

  #remember(token: StoredToken): void {
    this.#byHash.set(token.hash, token);
    this.#byId.set(token.id, token);
    this.#lastId = Math.max(this.#lastId, token.id);
  }

  #forget(id: number): void {
    const token = this.#byId.get(id);
    if (token) this.#byHash.delete(token.hash);
    this.#byId.delete(id);
    this.#readAtMs.delete(id);
  }

  #write(token: StoredToken): Promise<void> {
    return this.#storage.put(layout.token(token.id), Buffer.from(`${JSON.stringify(token)}\n`));
  }
}
