/**
 * From the network into a file: hashing, writing and receiving overlap, and a slow disk slows the sender down
 * instead of filling the memory.
 */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault } from "@cocoon/core";
import type { RunningDigest } from "../names.ts";
import { ociFault } from "../oci-fault.ts";

const pauseAboveBytes = 2 * 1024 * 1024;
const resumeBelowBytes = 1024 * 1024;

export interface AppendTarget {
  readonly file: FileHandle;
  /** Where the first byte goes. */
  readonly position: number;
  readonly maxBytes: number;
  /** Fed with everything received. */
  readonly digest: RunningDigest | undefined;
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
  #receivedBytes = 0;
  #writtenBytes = 0;
  #writing = false;
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
    this.#target.digest?.update(chunk);
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    if (this.#queuedBytes > pauseAboveBytes) this.#body.pause();
    this.#pump();
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

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#pump();
  }

  #pump(): void {
    if (this.#writing || this.#settled) return;
    if (this.#queue.length === 0) {
      if (this.#ended || this.#failure) this.#settle();
      return;
    }
    const batch = this.#queue;
    const batchBytes = this.#queuedBytes;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#writing = true;
    this.#write(batch, batchBytes).then(
      () => {
        this.#writing = false;
        if (this.#body.isPaused() && this.#queuedBytes < resumeBelowBytes) this.#body.resume();
        this.#pump();
      },
      (error: unknown) => {
        this.#writing = false;
        this.#queue = [];
        this.#fail(error instanceof Error ? error : new Error(String(error)));
      },
    );
  }

  async #write(batch: Buffer[], batchBytes: number): Promise<void> {
    const { file, position } = this.#target;
    const { bytesWritten } = await file.writev(batch, position + this.#writtenBytes);
    this.#writtenBytes += bytesWritten;
    if (bytesWritten === batchBytes) return;
    // A full disk takes a part first and says why at the next call.
    const rest = Buffer.concat(batch).subarray(bytesWritten);
    await this.#write([rest], rest.length);
  }

  #settle(): void {
    this.#settled = true;
    this.#body.off("data", this.#onData);
    this.#body.off("end", this.#onEnd);
    this.#body.off("close", this.#onGone);
    this.#done({ writtenBytes: this.#writtenBytes, failure: this.#failure });
  }
}
