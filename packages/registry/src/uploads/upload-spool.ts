/**
 * All open uploads, each a file in one directory until it is complete. Sessions never wait for each other. A session
 * opened by an earlier run of the server continues from what its file holds.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isFault, systemCode, toFault } from "@cocoon/core";
import type { RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import { SessionIds, newRun, type SessionId } from "./session-id.ts";
import { BodyMemory } from "../http/body-memory.ts";
import { UploadSession, unknownUpload } from "./upload-session.ts";
import { UploadThreads, type UploadThreadsOptions } from "./upload-threads.ts";

export interface SpoolOptions {
  readonly directory: string;
  readonly secret: Uint8Array;
  /** A session without data for so long is aborted. */
  readonly idleMs: number;
  readonly maxSessions?: number;
  readonly maxSessionsPerCaller?: number;
  /** A writer that sent nothing for so long may be replaced by another request. Default 30 s. */
  readonly takeoverMs?: number;
  readonly now?: () => number;
  readonly threads?: UploadThreadsOptions;
  readonly memory?: BodyMemory;
}

/** Above a limit, a session that is idle for so long makes room for a new one. */
const evictableMs = 60_000;

export async function openUploadSpool(options: SpoolOptions): Promise<UploadSpool> {
  try {
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw toFault(error, `upload directory ${options.directory} cannot be used`);
  }
  return new UploadSpool(options);
}

interface Owner {
  readonly name: RepositoryName;
  readonly caller: string;
}

export class UploadSpool implements AsyncDisposable {
  readonly directory: string;
  readonly #run = newRun();
  readonly #ids: SessionIds;
  readonly #options: Required<SpoolOptions>;
  readonly #threads: UploadThreads;
  readonly #sessions = new Map<string, UploadSession>();
  /** Sessions of earlier runs that ended in this one: their names stay valid, so record that they are over. */
  readonly #ended = new Map<string, number>();

  constructor(options: SpoolOptions) {
    this.directory = options.directory;
    this.#options = {
      maxSessions: 10_000,
      maxSessionsPerCaller: 1_000,
      takeoverMs: 30_000,
      now: Date.now,
      threads: {},
      memory: new BodyMemory(),
      ...options,
    };
    this.#threads = new UploadThreads(options.threads);
    this.#ids = new SessionIds(options.secret);
  }

  get openSessions(): number {
    return this.#sessions.size;
  }

  /** Bytes of request bodies held in memory. */
  get heldBytes(): number {
    return this.#options.memory.heldBytes;
  }

  /** A new session; at a limit the oldest idle one of the caller, or of all, is aborted for it. */
  async begin(owner: Owner): Promise<UploadSession> {
    const { maxSessions, maxSessionsPerCaller } = this.#options;
    const own = [...this.#sessions.values()].filter(({ caller }) => caller === owner.caller);
    if (own.length >= maxSessionsPerCaller)
      await this.#evict(own, `${maxSessionsPerCaller} uploads of this caller are open`);
    if (this.#sessions.size >= maxSessions)
      await this.#evict([...this.#sessions.values()], `${maxSessions} uploads are open`);
    const id = this.#ids.create(owner.name, { run: this.#run, nowMs: this.#options.now() });
    return this.#add(owner, { id, sizeBytes: 0 });
  }

  async #evict(sessions: readonly UploadSession[], why: string): Promise<void> {
    const idleSince = this.#options.now() - evictableMs;
    const idle = sessions.filter(({ state, lastUsedMs }) => state === "open" && lastUsedMs <= idleSince);
    const oldest = idle.toSorted((a, b) => a.lastUsedMs - b.lastUsedMs)[0];
    if (!oldest) throw ociFault("TOOMANYREQUESTS", `${why}; finish or cancel some`, { retryAfterMs: 5_000 });
    await oldest.abort();
  }

  /** The session of that name in that repository; throws BLOB_UPLOAD_UNKNOWN when there is none, or it is over. */
  async find(owner: Owner, text: string): Promise<UploadSession> {
    const id = this.#ids.tryRead(owner.name, text);
    if (!id) throw unknownUpload();
    const known = this.#sessions.get(id.stem);
    if (known) return known;
    if (id.run === this.#run || this.#ended.has(id.stem)) throw unknownUpload();
    const found = await this.#findFile(id);
    if (this.#ended.has(id.stem)) throw unknownUpload(); // ended while the file was looked up
    return this.#sessions.get(id.stem) ?? this.#add(owner, { id, sizeBytes: found });
  }

  async #findFile({ stem, startedAtMs }: SessionId): Promise<number> {
    const found = await tryStat(join(this.#options.directory, stem));
    // Without a file nothing was sent before the restart.
    if (this.#isOld(found?.mtimeMs ?? startedAtMs)) throw unknownUpload();
    return found?.size ?? 0;
  }

  /** Bytes that other open uploads of the repository hold on disk. */
  countOpenBytes(name: RepositoryName, except: UploadSession): number {
    let total = 0;
    for (const session of this.#sessions.values())
      if (session.name === name && session !== except) total += session.sizeBytes;
    return total;
  }

  /** Aborts idle sessions and removes files of sessions of earlier runs. Returns how many. */
  async expire(): Promise<number> {
    let dropped = 0;
    for (const session of this.#sessions.values())
      if (session.state === "open" && this.#isOld(session.lastUsedMs)) {
        await abortUnlessBusy(session);
        dropped += 1;
      }
    for (const [stem, endedAtMs] of this.#ended) if (this.#isOld(endedAtMs)) this.#ended.delete(stem);
    return dropped + (await this.#expireFiles());
  }

  async #expireFiles(): Promise<number> {
    let dropped = 0;
    for (const name of await readdir(this.#options.directory)) {
      const path = join(this.#options.directory, name);
      const found = await tryStat(path);
      if (this.#sessions.has(name) || !found || !this.#isOld(found.mtimeMs)) continue;
      await rm(path, { force: true });
      dropped += 1;
    }
    return dropped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#sessions.values()].map((session) => session.release()));
    this.#sessions.clear();
    await this.#threads[Symbol.asyncDispose]();
  }

  #add(
    { name, caller }: Owner,
    { id, sizeBytes }: { readonly id: SessionId; readonly sizeBytes: number },
  ): UploadSession {
    const session = new UploadSession({
      id,
      name,
      caller,
      sizeBytes,
      path: join(this.#options.directory, id.stem),
      threads: this.#threads,
      memory: this.#options.memory,
      now: this.#options.now,
      takeoverMs: this.#options.takeoverMs,
      onEnd: () => this.#forget(id),
    });
    this.#sessions.set(id.stem, session);
    return session;
  }

  #forget({ stem, run }: SessionId): void {
    this.#sessions.delete(stem);
    if (run !== this.#run) this.#ended.set(stem, this.#options.now());
  }

  #isOld(timeMs: number): boolean {
    return this.#options.now() - timeMs > this.#options.idleMs;
  }
}

/** A request may have taken the session since it was chosen. */
async function abortUnlessBusy(session: UploadSession): Promise<void> {
  try {
    if (session.state === "open") await session.abort();
  } catch (error) {
    if (!isFault(error, "conflict") && !isFault(error, "notFound")) throw error;
  }
}

async function tryStat(
  path: string,
): Promise<{ readonly mtimeMs: number; readonly size: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
