/**
 * Threads that hash and write uploads, so that the main thread only receives: on two cores a fast push uses both of them,
 * and other requests do not wait for hashing. An upload stays with its thread, which holds the running digest. Threads
 * start on demand and end when no upload used them for a while; a digest that ends with its thread is computed again by
 * reading the file.
 */
import { availableParallelism } from "node:os";
import { AnsweringThread, type Unnumbered } from "@cocoon/core";
import type { Digest, DigestAlgorithm } from "../names.ts";
import type { Answer, HashedContent, Order } from "./thread-protocol.ts";

export interface UploadThreadsOptions {
  /** Default: one per core, at most four. */
  readonly threads?: number;
  /** Default 30 s. */
  readonly idleMs?: number;
}

/** The thread of one upload. */
export interface ThreadedWriter {
  readonly algorithm: DigestAlgorithm | undefined;
  /** The thread has ended, and the running digest with it. */
  readonly isLost: boolean;
  /** Keeps the thread until disposed, however long no data arrives. */
  hold(): Disposable;
  /** Takes ownership of the pieces. Writes run one after the other; after a failure none runs. */
  write(
    file: number,
    at: { readonly position: number; readonly pieces: readonly Uint8Array[] },
  ): Promise<WriteResult>;
  /** Digest of everything written so far; undefined when it is not known. May be called once, at the end. */
  digest(): Promise<KnownDigest | undefined>;
  /** The digest will not be needed. */
  forget(): void;
}

interface KnownDigest {
  readonly digest: Digest;
  /** How many bytes it covers. */
  readonly sizeBytes: number;
}

interface WriteResult {
  readonly writtenBytes: number;
  readonly failure: Error | undefined;
}

interface Thread {
  readonly worker: AnsweringThread<Order, Answer>;
  uploads: number;
}

const maxThreads = 4;
const defaultIdleMs = 30_000;

export class UploadThreads implements AsyncDisposable {
  readonly #maxThreads: number;
  readonly #idleMs: number;
  readonly #threads: Thread[] = [];
  #idleTimer: NodeJS.Timeout | undefined;
  #holds = 0;
  #lastUpload = 0;

  constructor({ threads, idleMs = defaultIdleMs }: UploadThreadsOptions = {}) {
    this.#maxThreads = threads ?? Math.min(availableParallelism(), maxThreads);
    this.#idleMs = idleMs;
  }

  get alive(): number {
    return this.#threads.length;
  }

  /** A writer for one upload; without an algorithm nothing is hashed. */
  open(algorithm: DigestAlgorithm | undefined): ThreadedWriter {
    const thread = this.#pickThread();
    const upload = (this.#lastUpload += 1);
    thread.uploads += 1;
    let isOver = false;
    /** Only the first call gets the digest; undefined when the thread is lost. */
    const end = async (): Promise<HashedContent | undefined> => {
      if (isOver) return undefined;
      isOver = true;
      thread.uploads -= 1;
      const answer = await this.#send(thread, { kind: "end", upload }).catch(() => undefined);
      return answer?.hashed;
    };
    return {
      algorithm,
      get isLost() {
        return thread.worker.isGone;
      },
      hold: () => this.#hold(),
      write: async (file, { position, pieces }) => {
        const owned = pieces.map(takeMemory);
        const order = { kind: "write", upload, file, position, pieces: owned, algorithm } as const;
        const { writtenBytes, failure } = await this.#send(thread, order, owned);
        return { writtenBytes, failure: failure && Object.assign(new Error(failure.message), failure) };
      },
      digest: async () => {
        const hashed = await end();
        return hashed && algorithm
          ? { digest: `${algorithm}:${hashed.hex}` as Digest, sizeBytes: hashed.sizeBytes }
          : undefined;
      },
      forget: () => void end(),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idleTimer);
    await this.#endAll();
  }

  #hold(): Disposable {
    this.#holds += 1;
    clearTimeout(this.#idleTimer);
    return {
      [Symbol.dispose]: () => {
        this.#holds -= 1;
        this.#endWhenIdle();
      },
    };
  }

  #pickThread(): Thread {
    const leastUsed = this.#threads.toSorted((a, b) => a.uploads - b.uploads)[0];
    if (leastUsed && (leastUsed.uploads === 0 || this.#threads.length >= this.#maxThreads)) return leastUsed;
    return this.#start();
  }

  #start(): Thread {
    const worker = new AnsweringThread<Order, Answer>(new URL("./upload-thread.ts", import.meta.url), {
      name: "uploads",
      onLost: () => {
        const at = this.#threads.indexOf(thread);
        if (at >= 0) this.#threads.splice(at, 1);
      },
    });
    const thread: Thread = { worker, uploads: 0 };
    this.#threads.push(thread);
    return thread;
  }

  async #send(
    { worker }: Thread,
    order: Unnumbered<Order>,
    transfer?: readonly ArrayBuffer[],
  ): Promise<Answer> {
    clearTimeout(this.#idleTimer);
    try {
      return await worker.ask(order, transfer);
    } finally {
      this.#endWhenIdle();
    }
  }

  #endWhenIdle(): void {
    if (this.#holds > 0 || this.#threads.every(({ worker }) => worker.isGone)) return;
    if (this.#threads.some(({ worker }) => worker.waiting > 0)) return;
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => void this.#endAll(), this.#idleMs).unref();
  }

  async #endAll(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map(({ worker }) => worker.end()));
  }
}

/** A piece that owns its memory is transferred as it is; one that shares it with others, as small ones do, is copied. */
function takeMemory(piece: Uint8Array): ArrayBuffer {
  const { buffer } = piece;
  const owns = buffer instanceof ArrayBuffer && buffer.byteLength === piece.length;
  return owns ? buffer : new Uint8Array(piece).buffer;
}
