/**
 * One upload: a file that grows, and the digest of its content so far. One request at a time owns it:
 *
 *   open ──▶ writing ──▶ open                 a request appends its body; one that stalls can be replaced
 *              │
 *              └──▶ committing ──▶ committed  from here on nothing writes to the file
 *                        │
 *   open, writing ───────┴──▶ aborted         cancelled, expired, or the content is not what the digest says
 *
 * Every change of state is synchronous with the check that allows it, so no request continues on an old answer.
 */
import { constants } from "node:fs";
import { open, rm, type FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault, isFault } from "@cocoon/core";
import { getAlgorithm, type Digest, type DigestAlgorithm, type RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { LocalFile } from "../storage/storage.ts";
import { appendBody } from "./append.ts";
import { hashFile } from "./hash-file.ts";
import type { SessionId } from "./session-id.ts";
import type { BodyMemory } from "../http/body-memory.ts";
import type { ThreadedWriter, UploadThreads } from "./upload-threads.ts";

interface SessionOptions {
  readonly id: SessionId;
  readonly name: RepositoryName;
  /** Who opened it, or continued it after a restart. */
  readonly caller: string;
  readonly path: string;
  /** Not 0 for a file found after a restart; its digest is computed again at the end. */
  readonly sizeBytes: number;
  readonly threads: UploadThreads;
  readonly memory: BodyMemory;
  readonly now: () => number;
  /** A writer that sent nothing for so long may be replaced. */
  readonly takeoverMs: number;
  /** Called once, when the session is committed or aborted. */
  readonly onEnd: () => void;
}

interface AppendOptions {
  readonly maxBytes: number;
  readonly algorithm?: DigestAlgorithm;
  /** The length that Content-Range announced; a body of another length is removed again. */
  readonly exactBytes?: number | undefined;
}

/** What the owner of a session may do with it. */
export interface SessionOwner {
  /** Adds the request's body to the end. What arrived before a failure is kept, so that the client can continue. */
  append(options: AppendOptions): Promise<void>;
  /** Proves that the content is what the digest says and stores it. The session is over, whatever the result. */
  commit(digest: Digest, store: (file: LocalFile) => Promise<void>): Promise<void>;
  /** Ends the session with content from elsewhere: nothing was appended. */
  commitOther(store: () => Promise<void>): Promise<void>;
}

interface Writer {
  readonly body: Readable;
  readonly done: Promise<void>;
}

type State =
  | { readonly kind: "open" }
  | { readonly kind: "writing"; readonly writer: Writer }
  | { readonly kind: "committing" | "committed" | "aborted" };

export class UploadSession {
  readonly id: SessionId;
  readonly name: RepositoryName;
  readonly caller: string;
  readonly #options: SessionOptions;
  #state: State = { kind: "open" };
  #file: FileHandle | undefined;
  #hasFile: boolean;
  #sizeBytes: number;
  /** Its digest covers the file's bytes from the first one; missing when the file must be read again at the end. */
  #hasher: ThreadedWriter | undefined;
  #lastUsedMs: number;

  constructor(options: SessionOptions) {
    this.id = options.id;
    this.name = options.name;
    this.caller = options.caller;
    this.#options = options;
    this.#sizeBytes = options.sizeBytes;
    this.#hasFile = options.sizeBytes > 0;
    this.#lastUsedMs = options.now();
  }

  get state(): State["kind"] {
    return this.#state.kind;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }

  /**
   * Runs the work as the only owner. Throws `conflict` while another request writes or commits, BLOB_UPLOAD_UNKNOWN when
   * the session is over. A request whose client stopped sending gives way.
   */
  async own<T>(body: Readable, work: (owner: SessionOwner) => Promise<T>): Promise<T> {
    for (let state = this.#state; state.kind === "writing"; state = this.#state) {
      if (this.#options.now() - this.#lastUsedMs < this.#options.takeoverMs)
        throw ociFault("BLOB_UPLOAD_INVALID", "another request is writing to this upload", {
          as: "conflict",
        });
      state.writer.body.destroy();
      await state.writer.done;
    }
    this.#assertOpen();
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const writer: Writer = { body, done };
    this.#state = { kind: "writing", writer };
    this.#lastUsedMs = this.#options.now();
    try {
      return await work({
        append: (options) => this.#append(writer, options),
        commit: (digest, store) => this.#commit(writer, () => this.#storeFile(digest, store)),
        commitOther: (store) => this.#commit(writer, store),
      });
    } finally {
      if (this.#isWriter(writer)) this.#state = { kind: "open" };
      this.#lastUsedMs = this.#options.now();
      resolve();
    }
  }

  /** Ends the session and removes its file. Throws `conflict` when it is being committed. */
  async abort(): Promise<void> {
    const state = this.#state;
    if (state.kind !== "writing") this.#assertOpen();
    this.#end("aborted");
    await this.#stop(state);
    await rm(this.#options.path, { force: true });
  }

  /** Stops and closes the file; the next run of the server can continue the session. */
  async release(): Promise<void> {
    const state = this.#state;
    if (state.kind !== "writing" && state.kind !== "open") return;
    this.#end("aborted");
    await this.#stop(state);
  }

  #assertOpen(): void {
    const { kind } = this.#state;
    if (kind === "committing")
      throw ociFault("BLOB_UPLOAD_INVALID", "another request is committing this upload", { as: "conflict" });
    if (kind === "committed" || kind === "aborted") throw unknownUpload();
  }

  #isWriter(writer: Writer): boolean {
    return this.#state.kind === "writing" && this.#state.writer === writer;
  }

  #end(kind: "committed" | "aborted"): void {
    this.#state = { kind };
    this.#options.onEnd();
  }

  async #stop(state: State): Promise<void> {
    if (state.kind === "writing") {
      state.writer.body.destroy();
      await state.writer.done; // a thread may be writing: the file must not be reused under it
    }
    await this.#close();
  }

  async #append(writer: Writer, options: AppendOptions): Promise<void> {
    this.#assertWriter(writer);
    const { memory, now } = this.#options;
    const file = await this.#open();
    const thread = this.#pickThread(options.algorithm ?? "sha256");
    using _held = thread.hold(); // a slow client may be silent for longer than an idle thread is kept
    const { writtenBytes, failure } = await appendBody(writer.body, {
      writer: thread,
      file,
      position: this.#sizeBytes,
      maxBytes: Math.min(options.maxBytes - this.#sizeBytes, options.exactBytes ?? Infinity),
      memory,
      onBytes: () => (this.#lastUsedMs = now()),
    });
    if (thread !== this.#hasher) thread.forget();
    // The digest may cover bytes that never reached the file.
    if (failure && !isFault(failure, "badRequest")) this.#loseDigest();
    const { exactBytes } = options;
    if (exactBytes !== undefined && writtenBytes !== exactBytes) {
      if (!failure || isFault(failure, "tooLarge")) {
        this.#loseDigest();
        await file.truncate(this.#sizeBytes);
        throw ociFault(
          "SIZE_INVALID",
          `Content-Range announces ${exactBytes} bytes, the body has another length`,
        );
      }
    }
    this.#sizeBytes += writtenBytes;
    if (failure) throw failure;
  }

  #assertWriter(writer: Writer): void {
    if (!this.#isWriter(writer)) throw unknownUpload();
  }

  /** The thread that has hashed all content so far, or one that only writes. */
  #pickThread(algorithm: DigestAlgorithm): ThreadedWriter {
    const { threads } = this.#options;
    if (this.#sizeBytes === 0 || this.#hasher?.isLost) this.#loseDigest();
    if (this.#sizeBytes === 0) this.#hasher = threads.open(algorithm);
    return this.#hasher ?? threads.open(undefined);
  }

  #loseDigest(): void {
    this.#hasher?.forget();
    this.#hasher = undefined;
  }

  async #commit(writer: Writer, store: () => Promise<void>): Promise<void> {
    this.#assertWriter(writer);
    this.#state = { kind: "committing" };
    try {
      await store();
      this.#end("committed");
    } catch (error) {
      this.#end("aborted");
      throw error;
    } finally {
      await this.#close();
      if (this.#hasFile) await rm(this.#options.path, { force: true });
    }
  }

  async #storeFile(digest: Digest, store: (file: LocalFile) => Promise<void>): Promise<void> {
    const file = await this.#open();
    const actual = await this.#computeDigest(file, getAlgorithm(digest));
    if (actual !== digest)
      throw ociFault("DIGEST_INVALID", `the uploaded content has digest ${actual}, not ${digest}`);
    await this.#close();
    await store({ path: this.#options.path, sizeBytes: this.#sizeBytes });
  }

  /** Of exactly the bytes that are in the file. */
  async #computeDigest(file: FileHandle, algorithm: DigestAlgorithm): Promise<Digest> {
    const known = this.#hasher?.algorithm === algorithm ? await this.#hasher.digest() : undefined;
    const { size } = await file.stat();
    if (size !== this.#sizeBytes)
      throw new Fault("internal", `upload file has ${size} bytes instead of ${this.#sizeBytes}; push again`);
    if (known?.sizeBytes === size) return known.digest;
    return hashFile(this.#options.path, { algorithm, sizeBytes: size });
  }

  async #open(): Promise<FileHandle> {
    this.#hasFile = true;
    this.#file ??= await open(this.#options.path, constants.O_RDWR | constants.O_CREAT, 0o600);
    return this.#file;
  }

  async #close(): Promise<void> {
    this.#loseDigest();
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }
}

export function unknownUpload(): Fault {
  return ociFault("BLOB_UPLOAD_UNKNOWN", "there is no such upload; it is finished, cancelled or expired");
}
