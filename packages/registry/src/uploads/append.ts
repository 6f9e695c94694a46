/**
 * From the network into a file: receiving goes on while what came is hashed and written by another thread, and a slow
 * disk slows the sender down instead of filling the memory.
 */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault } from "@cocoon/core";
import { ociFault } from "../oci-fault.ts";
import type { ThreadedWriter } from "./upload-threads.ts";

/** Handed over at once: every walk to another thread and back costs something, and what is in its cache costs less. */
const batchBytes = 512 * 1024;
const pauseAboveBytes = 2 * 1024 * 1024;
const resumeBelowBytes = 1024 * 1024;
/** So much at a time is sent on to the disk while more comes; else everybody waits for it at the end. */
const flushBytes = 8 * 1024 * 1024;

export interface AppendTarget {
  readonly writer: ThreadedWriter;
  readonly file: FileHandle;
  /** Where the first byte goes. */
  readonly position: number;
  readonly maxBytes: number;
}

export interface Appended {
  /** How much is in the file now, counted from the position; also after a failure. */
  readonly writtenBytes: number;
  /** Why it is not the whole body, if it is not. */
  readonly failure: Error | undefined;
}

/** Never rejects: what arrived before a failure stays, and the sender may go on from there. */
export function appendBody(body: Readable, target: AppendTarget): Promise<Appended> {
  return new Promise((resolve) => {
    new Append(body, target, resolve).start();
  });
}

class Append {
  readonly #body: Readable;
  readonly #target: AppendTarget;
  readonly #done: (result: Appended) => void;
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  /** On their way to the file. */
  #leavingBytes = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #writtenBytes = 0;
  #unflushedBytes = 0;
  #flushing = false;
  #ended = false;
  #settled = false;
  #failure: Error | undefined;

  constructor(body: Readable, target: AppendTarget, done: (result: Appended) => void) {
    this.#body = body;
    this.#target = target;
    this.#done = done;
  }

  start(): void {
    this.#body.on("data", this.#onData);
    this.#body.on("end", this.#onEnd);
    this.#body.on("error", this.#onGone);
    this.#body.on("close", this.#onGone);
    if (this.#body.destroyed) this.#onGone();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#receivedBytes += chunk.length;
    if (this.#receivedBytes > this.#target.maxBytes) {
      this.#fail(
        ociFault("SIZE_INVALID", "the blob is larger than this registry accepts", { as: "tooLarge" }),
      );
      return;
    }
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#pump();
    if (this.#heldBytes > pauseAboveBytes) this.#body.pause();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#pump();
  };

  readonly #onGone = (): void => {
    if (!this.#ended)
      this.#failure ??= new Fault("badRequest", "the client went away before the end of the body");
    this.#pump();
  };

  get #heldBytes(): number {
    return this.#queuedBytes + this.#leavingBytes;
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#pump();
  }

  #pump(): void {
    if (this.#settled) return;
    const last = this.#ended || this.#failure !== undefined;
    if (this.#queuedBytes >= batchBytes || (last && this.#queuedBytes > 0)) this.#send();
    if (last && this.#heldBytes === 0 && !this.#flushing) this.#settle();
  }

  #send(): void {
    const { writer, file, position } = this.#target;
    const pieces = this.#queue;
    const bytes = this.#queuedBytes;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#leavingBytes += bytes;
    const written = writer.write(file.fd, { position: position + this.#sentBytes, pieces });
    this.#sentBytes += bytes;
    written.then(
      ({ writtenBytes, failure }) => this.#onWritten(bytes, writtenBytes, failure),
      (error: unknown) =>
        this.#onWritten(bytes, 0, error instanceof Error ? error : new Error(String(error))),
    );
  }

  #onWritten(bytes: number, writtenBytes: number, failure: Error | undefined): void {
    this.#leavingBytes -= bytes;
    this.#writtenBytes += writtenBytes;
    this.#unflushedBytes += writtenBytes;
    if (this.#unflushedBytes >= flushBytes && !this.#flushing) this.#flush();
    if (failure) {
      this.#queue = [];
      this.#queuedBytes = 0;
      this.#failure = failure; // counts more than what the client did: not all that was hashed is in the file
    }
    if (this.#body.isPaused() && this.#heldBytes < resumeBelowBytes) this.#body.resume();
    this.#pump();
  }

  #flush(): void {
    this.#flushing = true;
    this.#unflushedBytes = 0;
    const flushed = (failure?: Error) => {
      this.#flushing = false;
      // A disk tells of what it lost once, and not again at the end.
      if (failure) this.#failure = failure;
      this.#pump();
    };
    this.#target.file.datasync().then(() => flushed(), flushed);
  }

  #settle(): void {
    this.#settled = true;
    this.#body.off("data", this.#onData);
    this.#body.off("end", this.#onEnd);
    this.#body.off("close", this.#onGone);
    this.#done({ writtenBytes: this.#writtenBytes, failure: this.#failure });
  }
}
