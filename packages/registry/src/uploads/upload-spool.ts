/**
 * All open uploads, each a file in one directory until it is complete. Sessions never wait for each other. A
 * session opened by an earlier run of the server goes on from what its file holds.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { systemCode, toFault } from "@cocoon/core";
import type { RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import { LandingRooms } from "./landing-room.ts";
import { SessionIds, newRun } from "./session-id.ts";
import { UploadSession } from "./upload-session.ts";
import { UploadThreads, type UploadThreadsOptions } from "./upload-threads.ts";

export interface SpoolOptions {
  readonly directory: string;
  readonly secret: Uint8Array;
  /** A session nobody wrote to for so long is dropped. */
  readonly idleMs: number;
  readonly maxSessions?: number;
  readonly now?: () => number;
  readonly threads?: UploadThreadsOptions;
}

export async function openUploadSpool(options: SpoolOptions): Promise<UploadSpool> {
  try {
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw toFault(error, `upload directory ${options.directory} cannot be used`);
  }
  return new UploadSpool(options);
}

export class UploadSpool implements AsyncDisposable {
  readonly #run = newRun();
  readonly #ids: SessionIds;
  readonly #options: Required<SpoolOptions>;
  readonly #threads: UploadThreads;
  readonly #rooms = new LandingRooms();
  readonly #sessions = new Map<string, UploadSession>();
  /** Sessions of earlier runs that ended in this one: their names stay valid, so remember that they are over. */
  readonly #ended = new Map<string, number>();

  constructor(options: SpoolOptions) {
    this.#options = { maxSessions: 10_000, now: Date.now, threads: {}, ...options };
    this.#threads = new UploadThreads(options.threads);
    this.#ids = new SessionIds(options.secret);
  }

  get openSessions(): number {
    return this.#sessions.size;
  }

  begin(name: RepositoryName): UploadSession {
    if (this.#sessions.size >= this.#options.maxSessions)
      throw ociFault("TOOMANYREQUESTS", "too many open uploads; finish or cancel some", {
        retryAfterMs: 5_000,
      });
    const id = this.#ids.create(name, { run: this.#run, nowMs: this.#options.now() });
    return this.#add(name, { id, sizeBytes: 0 });
  }

  /** The session of that name in that repository; throws BLOB_UPLOAD_UNKNOWN when there is none, or none any more. */
  async find(name: RepositoryName, text: string): Promise<UploadSession> {
    const id = this.#ids.tryRead(name, text);
    if (!id) throw unknownUpload();
    const known = this.#sessions.get(id.stem);
    if (known) return known;
    if (id.run === this.#run || this.#ended.has(id.stem) || this.#isOld(id.startedAtMs))
      throw unknownUpload();
    const sizeBytes = await this.#sizeOnDisk(id.stem);
    return this.#sessions.get(id.stem) ?? this.#add(name, { id, sizeBytes });
  }

  /** The session is complete or cancelled; its name is unknown from now on. */
  forget(session: UploadSession): void {
    const { stem, run, startedAtMs } = session.id;
    this.#sessions.delete(stem);
    if (run !== this.#run) this.#ended.set(stem, startedAtMs);
  }

  async cancel(session: UploadSession): Promise<void> {
    this.forget(session);
    await session.discard();
  }

  /** Drops what nobody wrote to for too long, files of forgotten sessions included. Returns how many. */
  async expire(): Promise<number> {
    const before = this.#sessions.size;
    for (const session of this.#sessions.values())
      if (!session.busy && this.#isOld(session.lastUsedMs)) await this.cancel(session);
    for (const [stem, startedAtMs] of this.#ended) if (this.#isOld(startedAtMs)) this.#ended.delete(stem);
    return before - this.#sessions.size + (await this.#expireFiles());
  }

  async #expireFiles(): Promise<number> {
    let dropped = 0;
    for (const name of await readdir(this.#options.directory)) {
      const path = join(this.#options.directory, name);
      const modifiedAtMs = await modifiedAt(path);
      if (this.#sessions.has(name) || modifiedAtMs === undefined || !this.#isOld(modifiedAtMs)) continue;
      await rm(path, { force: true });
      dropped += 1;
    }
    return dropped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#sessions.values()].map((session) => session.release()));
    this.#sessions.clear();
    this.#rooms[Symbol.dispose]();
    await this.#threads[Symbol.asyncDispose]();
  }

  #add(name: RepositoryName, { id, sizeBytes }: Pick<UploadSession, "id" | "sizeBytes">): UploadSession {
    const path = join(this.#options.directory, id.stem);
    const { now } = this.#options;
    const shared = { threads: this.#threads, rooms: this.#rooms, now };
    const session = new UploadSession({ id, name, path, sizeBytes, ...shared });
    this.#sessions.set(id.stem, session);
    return session;
  }

  async #sizeOnDisk(stem: string): Promise<number> {
    try {
      return (await stat(join(this.#options.directory, stem))).size;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return 0; // opened, but nothing was sent before the restart
      throw error;
    }
  }

  #isOld(timeMs: number): boolean {
    return this.#options.now() - timeMs > this.#options.idleMs;
  }
}

async function modifiedAt(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function unknownUpload(): Error {
  return ociFault("BLOB_UPLOAD_UNKNOWN", "there is no such upload; it is finished, cancelled or expired");
}
