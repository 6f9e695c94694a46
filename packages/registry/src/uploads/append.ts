/**
 * From the network into a file: receiving continues while received data is hashed and written by another thread, and a
 * slow disk slows the sender down instead of filling memory.
 */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault } from "@cocoon/core";
import { ociFault } from "../oci-fault.ts";
import type { BodyMemory } from "../http/body-memory.ts";
import type { ThreadedWriter } from "./upload-threads.ts";

/** Size of a batch: each hand-over to another thread costs CPU time. */
const batchBytes = 1024 * 1024;
/** Size of a batch while many uploads hold data. */
const smallBatchBytes = 64 * 1024;
/** A sender slower than a batch in this time gets smaller batches. */
const batchWaitMs = 1_000;
/** Data of one upload that may be held in memory; when the machine is busy, threads continue later and more of it is held. */
const pauseAboveBytes = 4 * 1024 * 1024;
/** The same while many uploads hold data. */
const smallPauseAboveBytes = 2 * 1024 * 1024;
/** Data is flushed to disk in steps of this size while more arrives; otherwise every upload waits for the disk at its end. */
const flushBytes = 8 * 1024 * 1024;

export interface AppendTarget {
  readonly writer: ThreadedWriter;
  readonly file: FileHandle;
  /** Offset of the first byte. */
  readonly position: number;
  readonly maxBytes: number;
  readonly memory: BodyMemory;
  readonly onBytes?: () => void;
}

export interface AppendResult {
  /** Bytes in the file, counted from the position; also after a failure. */
  readonly writtenBytes: number;
  /** Set when the body was not stored completely. */
  readonly failure: Error | undefined;
}

/** Never rejects: data that arrived before a failure stays in the file, and the client may continue from there. */
export function appendBody(body: Readable, target: AppendTarget): Promise<AppendResult> {
  return new Promise((resolve) => {
    new BodyAppend(body, target, resolve).start();
  });
}

class BodyAppend {
  readonly #body: Readable;
  readonly #target: AppendTarget;
  readonly #resolve: (result: AppendResult) => void;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  /** Handed to the thread and not yet written. */
  #sendingBytes = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #writtenBytes = 0;
  #unflushedBytes = 0;
  #batchTimer: NodeJS.Timeout | undefined;
  #flushing = false;
  #paused = false;
  #ended = false;
  #settled = false;
  #failure: Error | undefined;

  constructor(body: Readable, target: AppendTarget, resolve: (result: AppendResult) => void) {
    this.#body = body;
    this.#target = target;
    this.#resolve = resolve;
  }

  start(): void {
    this.#body.on("end", this.#onEnd);
    this.#body.on("error", this.#onClose);
    this.#body.on("close", this.#onClose);
    if (this.#body.destroyed) this.#onClose();
    else this.#body.on("data", this.#onData);
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#failure) return; // the rest of the body is read by the caller, if at all
    this.#target.onBytes?.();
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > this.#target.maxBytes) {
      this.#fail(
        ociFault(
          "SIZE_INVALID",
          `the upload is larger than the ${this.#target.maxBytes} bytes allowed here`,
          {
            as: "tooLarge",
          },
        ),
      );
      return;
    }
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#target.memory.add(chunk.length);
    this.#batchTimer ??= setTimeout(this.#onBatchTimeout, batchWaitMs).unref();
    this.#pump();
    if (this.#heldBytes > this.#maxHeldBytes) {
      this.#paused = true;
      this.#body.pause();
    }
  };

  readonly #onBatchTimeout = (): void => {
    this.#batchTimer = undefined;
    if (this.#queuedBytes > 0) this.#send();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#pump();
  };

  readonly #onClose = (): void => {
    if (!this.#ended)
      this.#failure ??= new Fault(
        "badRequest",
        "the client closed the connection before the end of the body",
      );
    this.#pump();
  };

  get #heldBytes(): number {
    return this.#queuedBytes + this.#sendingBytes;
  }

  get #maxHeldBytes(): number {
    return this.#target.memory.isScarce ? smallPauseAboveBytes : pauseAboveBytes;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#pump();
  }

  #pump(): void {
    if (this.#settled) return;
    const isLast = this.#ended || this.#failure !== undefined;
    const wanted = this.#target.memory.isScarce ? smallBatchBytes : batchBytes;
    if (this.#queuedBytes >= wanted || (isLast && this.#queuedBytes > 0)) this.#send();
    if (isLast && this.#heldBytes === 0 && !this.#flushing) this.#settle();
  }

  #send(): void {
    const { writer, file, position } = this.#target;
    const pieces = this.#takeQueue();
    const bytes = pieces.reduce((total, piece) => total + piece.length, 0);
    this.#sendingBytes += bytes;
    const written = writer.write(file.fd, { position: position + this.#sentBytes, pieces });
    this.#sentBytes += bytes;
    written.then(
      ({ writtenBytes, failure }) => this.#onWritten(bytes, writtenBytes, failure),
      (error: unknown) =>
        this.#onWritten(bytes, 0, error instanceof Error ? error : new Error(String(error))),
    );
  }

  #takeQueue(): Uint8Array[] {
    clearTimeout(this.#batchTimer);
    this.#batchTimer = undefined;
    const pieces = this.#queue;
    this.#queue = [];
    this.#queuedBytes = 0;
    return pieces;
  }

  #onWritten(bytes: number, writtenBytes: number, failure: Error | undefined): void {
    this.#sendingBytes -= bytes;
    this.#target.memory.remove(bytes);
    this.#writtenBytes += writtenBytes;
    this.#unflushedBytes += writtenBytes;
    if (this.#unflushedBytes >= flushBytes && !this.#flushing) this.#flush();
    if (failure) {
      this.#target.memory.remove(this.#queuedBytes);
      this.#takeQueue();
      this.#failure = failure; // replaces a failure of the client: not all hashed bytes are in the file
    }
    if (this.#paused && this.#heldBytes < this.#maxHeldBytes / 2) {
      this.#paused = false;
      this.#body.resume();
    }
    this.#pump();
  }

  #flush(): void {
    this.#flushing = true;
    this.#unflushedBytes = 0;
    const flushed = (failure?: Error) => {
      this.#flushing = false;
      // A disk reports lost data once, and not again at the next flush.
      if (failure) this.#failure = failure;
      this.#pump();
    };
    this.#target.file.datasync().then(() => flushed(), flushed);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#batchTimer);
    this.#body.off("data", this.#onData);
    this.#body.off("end", this.#onEnd);
    this.#body.off("close", this.#onClose);
    this.#resolve({ writtenBytes: this.#writtenBytes, failure: this.#failure });
  }
}
