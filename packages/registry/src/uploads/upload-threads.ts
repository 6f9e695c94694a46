/**
 * Threads that hash and write uploads, so that the main one only receives: on two cores a fast push takes both of them
 * instead of one and a half, and whoever asks for something else meanwhile is not kept waiting by hashing. An upload
 * stays with its thread, which holds the digest of what came so far. Threads start when they are needed and end when
 * nobody has pushed for a while; digests that end with them are found again by reading the file.
 */
import { availableParallelism } from "node:os";
import { AnsweringThread, type Unnumbered } from "@cocoon/core";
import type { Digest, DigestAlgorithm } from "../names.ts";
import type { Answer, Order } from "./thread-protocol.ts";

export interface UploadThreadsOptions {
  /** Default: one per core, at most four. */
  readonly threads?: number;
  /** Default 30 s. */
  readonly idleMs?: number;
}

/** What is wanted of the thread of one upload. */
export interface ThreadedWriter {
  readonly algorithm: DigestAlgorithm | undefined;
  /** The thread is gone, and the digest with it. */
  readonly isLost: boolean;
  /** Until this is disposed of the thread stays, however long nothing comes. */
  hold(): Disposable;
  /**
   * Takes the pieces away from the caller; those of shared memory come back with the answer. Orders are carried out one
   * after the other; after a failure none is.
   */
  write(
    file: number,
    at: { readonly position: number; readonly pieces: readonly Uint8Array[] },
  ): Promise<Written>;
  /** Of everything written so far; undefined when nobody knows. Asked once, at the end. */
  digest(): Promise<Digest | undefined>;
  /** Nobody will ask for the digest. */
  forget(): void;
}

interface Written {
  readonly writtenBytes: number;
  readonly failure: Error | undefined;
}

interface Thread {
  readonly asked: AnsweringThread<Order, Answer>;
  uploads: number;
}

const mostThreads = 4;
const defaultIdleMs = 30_000;

export class UploadThreads implements AsyncDisposable {
  readonly #most: number;
  readonly #idleMs: number;
  readonly #threads: Thread[] = [];
  #idle: NodeJS.Timeout | undefined;
  #holds = 0;
  #number = 0;

  constructor({ threads, idleMs = defaultIdleMs }: UploadThreadsOptions = {}) {
    this.#most = threads ?? Math.min(availableParallelism(), mostThreads);
    this.#idleMs = idleMs;
  }

  /** Threads that there are now. */
  get alive(): number {
    return this.#threads.length;
  }

  /** For one upload; without an algorithm nothing is hashed. */
  open(algorithm: DigestAlgorithm | undefined): ThreadedWriter {
    const thread = this.#leastUsed();
    const upload = (this.#number += 1);
    thread.uploads += 1;
    let isOver = false;
    /** The digest in hex, to whoever ends it first; undefined when the thread is lost. */
    const end = async (): Promise<string | undefined> => {
      if (isOver) return undefined;
      isOver = true;
      thread.uploads -= 1;
      const answer = await this.#ask(thread, { kind: "end", upload }).catch(() => undefined);
      return answer?.digest;
    };
    return {
      algorithm,
      get isLost() {
        return thread.asked.isGone;
      },
      hold: () => this.#hold(),
      write: async (file, { position, pieces }) => {
        const owned = pieces.map(ownMemory);
        const order = { kind: "write", upload, file, position, pieces: owned, algorithm } as const;
        const { writtenBytes, failure } = await this.#ask(
          thread,
          order,
          owned.map(({ buffer }) => buffer).filter((memory) => memory instanceof ArrayBuffer),
        );
        return { writtenBytes, failure: failure && Object.assign(new Error(failure.message), failure) };
      },
      digest: async () => {
        const digest = await end();
        return digest === undefined || algorithm === undefined
          ? undefined
          : (`${algorithm}:${digest}` as Digest);
      },
      forget: () => void end(),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle);
    await this.#endAll();
  }

  #hold(): Disposable {
    this.#holds += 1;
    clearTimeout(this.#idle);
    return {
      [Symbol.dispose]: () => {
        this.#holds -= 1;
        this.#endLater();
      },
    };
  }

  #leastUsed(): Thread {
    const idlest = this.#threads.toSorted((a, b) => a.uploads - b.uploads)[0];
    if (idlest && (idlest.uploads === 0 || this.#threads.length >= this.#most)) return idlest;
    return this.#start();
  }

  #start(): Thread {
    const asked = new AnsweringThread<Order, Answer>(new URL("./upload-thread.ts", import.meta.url), {
      name: "uploads",
      onLost: () => {
        const at = this.#threads.indexOf(thread);
        if (at >= 0) this.#threads.splice(at, 1);
      },
    });
    const thread: Thread = { asked, uploads: 0 };
    this.#threads.push(thread);
    return thread;
  }

  async #ask(
    { asked }: Thread,
    order: Unnumbered<Order>,
    transfer?: readonly ArrayBuffer[],
  ): Promise<Answer> {
    clearTimeout(this.#idle);
    try {
      return await asked.ask(order, transfer);
    } finally {
      this.#endLater();
    }
  }

  #endLater(): void {
    if (this.#holds > 0 || this.#threads.every(({ asked }) => asked.isGone)) return;
    if (this.#threads.some(({ asked }) => asked.waiting > 0)) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => void this.#endAll(), this.#idleMs).unref();
  }

  async #endAll(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map(({ asked }) => asked.end()));
  }
}

/**
 * Memory that is this piece's alone, or that threads share, goes to the thread as it is; of what is one block with other
 * pieces, as small ones are, a copy does.
 */
function ownMemory(piece: Uint8Array): Uint8Array {
  const { buffer } = piece;
  if (buffer instanceof SharedArrayBuffer) return piece;
  return buffer.byteLength === piece.length ? new Uint8Array(buffer) : new Uint8Array(piece);
}
