/**
 * Reading a file that may be large: two buffers, one filling from disk while the other is sent. A copy begins with small
 * buffers and gets large ones while its reader is fast; all large ones together are limited, so that slow readers cost
 * little memory however many there are.
 */
import { read } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import type { CopyOptions, OpenObject } from "./storage.ts";

const largeBytes = 768 * 1024;
const smallBytes = 32 * 1024;
/** A reader that takes a buffer in this time is fast. */
const fastMs = 250;
/** Large buffers of all copies together: 48 MiB. */
const maxLargeBuffers = 64;
const maxSpareBuffers = 8;

const spareBuffers: Buffer[] = [];
let largeBuffers = 0;

export async function openFileObject(file: FileHandle): Promise<OpenObject | undefined> {
  const found = await file.stat();
  if (!found.isFile()) {
    await file.close();
    return undefined;
  }
  return {
    sizeBytes: found.size,
    copyTo: (sink, options) => copyFile({ file, sizeBytes: found.size }, sink, options),
    readAll: () => readWhole(file, found.size),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function readWhole(file: FileHandle, sizeBytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(sizeBytes);
  await fill(file, buffer, 0);
  return buffer;
}

function copyFile(
  { file, sizeBytes }: { file: FileHandle; sizeBytes: number },
  sink: Writable,
  { range, signal }: CopyOptions,
): Promise<void> {
  const { start = 0, end = sizeBytes - 1 } = range ?? {};
  return new Promise((resolve, reject) => {
    const done = (failure: Error | undefined) => (failure ? reject(failure) : resolve());
    new FileCopy({ file: file.fd, sink, signal, done }, { start, end: end + 1 }).begin();
  });
}

interface CopyJob {
  readonly file: number;
  readonly sink: Writable;
  readonly signal: AbortSignal;
  readonly done: (failure: Error | undefined) => void;
}

/**
 * Callbacks, not promises: of what a fast download costs, a tenth was promises. The copy ends when nothing reads from the
 * file any more, so that it may be closed. A sink whose client is gone may never report that it is done with a chunk; an
 * aborted copy does not wait for it, and leaves the buffers to it.
 */
class FileCopy {
  readonly #job: CopyJob;
  readonly #end: number;
  readonly #buffers: [Buffer | undefined, Buffer | undefined] = [undefined, undefined];
  #wantsLarge = false;
  #sentAtMs = 0;
  #position: number;
  #turn: 0 | 1 = 0;
  /** Being filled, or full and waiting for its turn. */
  #next: Buffer | undefined;
  #filledBytes = 0;
  #isReading = false;
  #isSending = false;
  #isOver = false;
  #failure: Error | undefined;

  constructor(job: CopyJob, { start, end }: { readonly start: number; readonly end: number }) {
    this.#job = job;
    this.#position = start;
    this.#end = end;
  }

  begin(): void {
    const { signal } = this.#job;
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
    else this.#goOn();
  }

  readonly #onAbort = (): void => this.#fail(this.#job.signal.reason as Error);

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#goOn();
  }

  #goOn(): void {
    if (this.#isOver || this.#isReading) return;
    if (this.#failure) return this.#finish();
    if (this.#next && !this.#isSending) this.#send(this.#next);
    if (!this.#next && this.#position < this.#end) this.#startReading();
    if (!this.#next && !this.#isSending) this.#finish();
  }

  #startReading(): void {
    const buffer = this.#chooseBuffer();
    this.#next = buffer.subarray(0, Math.min(buffer.length, this.#end - this.#position));
    this.#turn = this.#turn === 0 ? 1 : 0;
    this.#filledBytes = 0;
    this.#read(this.#next);
  }

  /** The buffer whose turn it is, in the size that fits the reader. */
  #chooseBuffer(): Buffer {
    const known = this.#buffers[this.#turn];
    const isLarge = known?.length === largeBytes;
    if (known && isLarge === this.#wantsLarge) return known;
    const chosen = this.#wantsLarge ? (tryTakeLarge() ?? known) : Buffer.allocUnsafeSlow(smallBytes);
    if (known && isLarge && chosen !== known) giveBack(known);
    const buffer = chosen ?? Buffer.allocUnsafeSlow(smallBytes);
    this.#buffers[this.#turn] = buffer;
    return buffer;
  }

  #read(buffer: Buffer): void {
    this.#isReading = true;
    const left = buffer.length - this.#filledBytes;
    read(this.#job.file, buffer, this.#filledBytes, left, this.#position, (error, bytes) => {
      this.#isReading = false;
      if (error) return this.#fail(error);
      if (bytes === 0) return this.#fail(new Fault("internal", "a stored file is shorter than it was"));
      this.#filledBytes += bytes;
      this.#position += bytes;
      if (this.#filledBytes < buffer.length && !this.#failure) this.#read(buffer);
      else this.#goOn();
    });
  }

  #send(buffer: Buffer): void {
    this.#next = undefined;
    this.#isSending = true;
    this.#sentAtMs = performance.now();
    this.#job.sink.write(buffer, (error) => {
      this.#isSending = false;
      this.#wantsLarge = performance.now() - this.#sentAtMs < fastMs;
      if (error) this.#fail(error);
      else this.#goOn();
    });
  }

  #finish(): void {
    this.#isOver = true;
    this.#job.signal.removeEventListener("abort", this.#onAbort);
    for (const buffer of this.#buffers)
      if (buffer?.length === largeBytes) {
        if (this.#isSending) largeBuffers -= 1; // the sink may still read from it: it cannot be used again
        else giveBack(buffer);
      }
    this.#job.done(this.#failure);
  }
}

async function fill(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, position + filled);
    if (bytesRead === 0) throw new Fault("internal", "a stored file is shorter than it was");
    filled += bytesRead;
  }
}

/** Undefined when all copies together have too many. */
function tryTakeLarge(): Buffer | undefined {
  if (largeBuffers >= maxLargeBuffers) return undefined;
  largeBuffers += 1;
  return spareBuffers.pop() ?? Buffer.allocUnsafeSlow(largeBytes);
}

function giveBack(buffer: Buffer): void {
  largeBuffers -= 1;
  if (spareBuffers.length < maxSpareBuffers) spareBuffers.push(buffer);
}
