/** One upload: a file that grows, and the digest of what is in it so far. */
import { constants } from "node:fs";
import { open, rm, type FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { Writable, type Readable } from "node:stream";
import { isFault } from "@cocoon/core";
import {
  RunningDigest,
  algorithmOf,
  type Digest,
  type DigestAlgorithm,
  type RepositoryName,
} from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { LocalFile } from "../storage/storage.ts";
import { appendBody } from "./append.ts";
import type { LandingRooms } from "./landing-room.ts";
import type { ThreadedWriter, UploadThreads } from "./upload-threads.ts";
import type { SessionId } from "./session-id.ts";

export interface SessionOptions {
  readonly id: SessionId;
  readonly name: RepositoryName;
  readonly path: string;
  /** Found on disk after a restart: what is in the file was hashed by nobody that is still alive. */
  readonly sizeBytes: number;
  readonly threads: UploadThreads;
  readonly rooms: LandingRooms;
  readonly now: () => number;
}

export interface AppendOptions {
  readonly maxBytes: number;
  readonly algorithm?: DigestAlgorithm;
  /** Throws when the body does not belong at the end of what is there; asked again when that changed. */
  readonly assertFollows: () => void;
}

/** A writer that sent nothing for so long may be replaced. */
const stalledMs = 30_000;

export class UploadSession {
  readonly id: SessionId;
  readonly name: RepositoryName;
  readonly #path: string;
  readonly #threads: UploadThreads;
  readonly #rooms: LandingRooms;
  readonly #now: () => number;
  #file: FileHandle | undefined;
  #sizeBytes: number;
  /** Its digest covers exactly the file's bytes, or it is missing: then the file is read again at the end. */
  #hashed: ThreadedWriter | undefined;
  /** The request that writes now. */
  #writer: { readonly body: Readable; readonly done: Promise<void> } | undefined;
  #lastUsedMs: number;

  constructor(options: SessionOptions) {
    this.id = options.id;
    this.name = options.name;
    this.#path = options.path;
    this.#threads = options.threads;
    this.#rooms = options.rooms;
    this.#now = options.now;
    this.#sizeBytes = options.sizeBytes;
    this.#lastUsedMs = options.now();
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  get busy(): boolean {
    return this.#writer !== undefined;
  }

  /**
   * Adds a body to the end. What arrives before a failure is kept, so that the client can ask where it stands and
   * go on. One request at a time may write; one that has been silent for long, as of a client that lost its line
   * and came back, gives way.
   */
  async append(body: Readable, options: AppendOptions): Promise<void> {
    const writer = this.#writer;
    if (writer) {
      if (this.#now() - this.#lastUsedMs < stalledMs)
        throw ociFault("BLOB_UPLOAD_INVALID", "another request is writing to this upload", {
          as: "conflict",
        });
      writer.body.destroy();
      await writer.done;
      options.assertFollows();
    }
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#writer = { body, done };
    try {
      this.#file ??= await open(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600);
      const thread = this.#threadFor(options.algorithm ?? "sha256");
      using _held = thread.hold(); // a slow sender may be silent for longer than a thread without work stays
      const { writtenBytes, failure } = await appendBody(body, {
        writer: thread,
        file: this.#file,
        position: this.#sizeBytes,
        maxBytes: options.maxBytes - this.#sizeBytes,
        rooms: this.#rooms,
        onBytes: () => (this.#lastUsedMs = this.#now()),
      });
      this.#sizeBytes += writtenBytes;
      if (thread !== this.#hashed) thread.forget();
      if (failure) {
        // The digest may have seen bytes that never reached the file.
        if (!isFault(failure, "badRequest")) this.#loseDigest();
        throw failure;
      }
    } finally {
      this.#writer = undefined;
      this.#lastUsedMs = this.#now();
      resolve();
    }
  }

  /** The thread that has hashed what is there, or one that only writes. */
  #threadFor(algorithm: DigestAlgorithm): ThreadedWriter {
    if (this.#sizeBytes === 0 || this.#hashed?.isLost) this.#loseDigest();
    if (this.#sizeBytes === 0) this.#hashed = this.#threads.open(algorithm);
    return this.#hashed ?? this.#threads.open(undefined);
  }

  #loseDigest(): void {
    this.#hashed?.forget();
    this.#hashed = undefined;
  }

  /** The complete file, its content proven to be what the digest says. The session is over, whatever the answer. */
  async finish(digest: Digest): Promise<LocalFile> {
    await this.#stopWriting();
    this.#file ??= await open(this.#path, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const actual = await this.#actualDigest(algorithmOf(digest));
      if (actual !== digest)
        throw ociFault("DIGEST_INVALID", `the uploaded content has digest ${actual}, not ${digest}`);
    } catch (error) {
      await this.discard();
      throw error;
    }
    await this.#close();
    return { path: this.#path, sizeBytes: this.#sizeBytes };
  }

  async #actualDigest(algorithm: DigestAlgorithm): Promise<Digest> {
    const again = new RunningDigest(algorithm);
    if (this.#sizeBytes === 0) return again.digest();
    const known = this.#hashed?.algorithm === algorithm ? await this.#hashed.digest() : undefined;
    if (known !== undefined) return known;
    const file = await open(this.#path, "r");
    const sink = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        again.update(chunk);
        done();
      },
    });
    await pipeline(file.createReadStream({ highWaterMark: 1024 * 1024 }), sink);
    return again.digest();
  }

  async discard(): Promise<void> {
    await this.#close();
    await rm(this.#path, { force: true });
  }

  /** A thread may be writing: its file must not become another one under its hands. */
  async #stopWriting(): Promise<void> {
    const writer = this.#writer;
    writer?.body.destroy();
    await writer?.done;
  }

  async #close(): Promise<void> {
    await this.#stopWriting();
    this.#loseDigest();
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  /** Lets go of the file; the session can be taken up again by the next run of the server. */
  async release(): Promise<void> {
    await this.#close();
  }
}
