/**
 * A thread that hashes and writes what the main thread receives. All work is synchronous, one order after the other, in
 * steps small enough that data that was just hashed is written while it is still in the processor's cache.
 */
import { createHash, type Hash } from "node:crypto";
import { writevSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import type { Answer, HashedContent, Order, WriteOrder } from "./thread-protocol.ts";

interface Upload {
  readonly hash: Hash | undefined;
  hashedBytes: number;
  /** After a failed write nothing more is written: the file would have a gap. */
  failure: Answer["failure"];
}

/** Hashed and then written at once. Measurements: decision 0022. */
const stepBytes = 128 * 1024;

const uploads = new Map<number, Upload>();

function execute(order: Order): Answer {
  if (order.kind === "write") return write(order);
  const { number, upload } = order;
  const hashed = readHash(uploads.get(upload));
  uploads.delete(upload);
  return { number, writtenBytes: 0, hashed, failure: undefined };
}

function readHash(upload: Upload | undefined): HashedContent | undefined {
  return upload?.hash && { hex: upload.hash.digest("hex"), sizeBytes: upload.hashedBytes };
}

function write(order: WriteOrder): Answer {
  const upload = ensureUpload(order);
  const done = { writtenBytes: 0 };
  try {
    if (!upload.failure) hashAndWrite(upload, order, done);
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    upload.failure = { message, code };
  } finally {
    // Left to the garbage collector, a fast upload makes it run all the time: each piece is a block outside its heap.
    for (const buffer of order.pieces) buffer.transfer(0);
  }
  return { number: order.number, ...done, hashed: undefined, failure: upload.failure };
}

function ensureUpload({ upload, algorithm }: WriteOrder): Upload {
  const known = uploads.get(upload);
  if (known) return known;
  const hash = algorithm === undefined ? undefined : createHash(algorithm);
  const begun: Upload = { hash, hashedBytes: 0, failure: undefined };
  uploads.set(upload, begun);
  return begun;
}

/** Also right when it throws: a full disk takes a part first and fails at the next call. */
interface Done {
  writtenBytes: number;
}

/** Whole pieces, so many that they have at least the size of a step. */
function hashAndWrite(upload: Upload, { file, position, pieces }: WriteOrder, done: Done): void {
  let step: Uint8Array[] = [];
  let bytes = 0;
  for (const [index, buffer] of pieces.entries()) {
    const piece = new Uint8Array(buffer);
    upload.hash?.update(piece);
    upload.hashedBytes += piece.length;
    step.push(piece);
    bytes += piece.length;
    if (bytes < stepBytes && index + 1 < pieces.length) continue;
    writeStep({ file, position, step }, done);
    step = [];
    bytes = 0;
  }
}

interface Step {
  readonly file: number;
  readonly position: number;
  readonly step: readonly Uint8Array[];
}

function writeStep({ file, position, step }: Step, done: Done): void {
  for (let rest = step; rest.length > 0;) {
    const taken = writevSync(file, rest, position + done.writtenBytes);
    done.writtenBytes += taken;
    rest = dropBytes(rest, taken);
  }
}

function dropBytes(pieces: readonly Uint8Array[], count: number): Uint8Array[] {
  let left = count;
  const rest: Uint8Array[] = [];
  for (const piece of pieces) {
    if (left < piece.length) rest.push(left === 0 ? piece : piece.subarray(left));
    left = Math.max(0, left - piece.length);
  }
  return rest;
}

parentPort?.on("message", (order: Order) => parentPort?.postMessage(execute(order), []));
