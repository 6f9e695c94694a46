/**
 * A thread that hashes and writes what the main thread receives. All work is synchronous, one order after the other: a
 * piece that was just hashed is written while it is still near.
 */
import { createHash, type Hash } from "node:crypto";
import { writevSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import type { Answer, Order, WriteOrder } from "./thread-protocol.ts";

interface Upload {
  readonly hash: Hash | undefined;
  /** What follows a piece that could not be written has no place in the file. */
  failure: Answer["failure"];
}

const uploads = new Map<number, Upload>();

function answerTo(order: Order): Answer {
  if (order.kind === "write") return write(order);
  const { number, upload } = order;
  const digest = uploads.get(upload)?.hash?.digest("hex");
  uploads.delete(upload);
  return { number, writtenBytes: 0, digest, failure: undefined };
}

function write(order: WriteOrder): Answer {
  const upload = uploadOf(order);
  let writtenBytes = 0;
  try {
    if (!upload.failure) {
      for (const piece of order.pieces) upload.hash?.update(piece);
      for (const bytes of writeAll(order)) writtenBytes += bytes;
    }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    upload.failure = { message, code };
  } finally {
    // Left to the garbage collector, a fast upload makes it run all the time: each piece is a block outside of its heap.
    for (const { buffer } of order.pieces) if (buffer instanceof ArrayBuffer) buffer.transfer(0);
  }
  return { number: order.number, writtenBytes, digest: undefined, failure: upload.failure };
}

function uploadOf({ upload, algorithm }: WriteOrder): Upload {
  const known = uploads.get(upload);
  if (known) return known;
  const hash = algorithm === undefined ? undefined : createHash(algorithm);
  const begun: Upload = { hash, failure: undefined };
  uploads.set(upload, begun);
  return begun;
}

/** Tells what each call took: a full disk takes a part first and says why at the next one. */
function* writeAll({ file, position, pieces }: WriteOrder): Generator<number> {
  let rest: Uint8Array[] = [...pieces];
  let at = position;
  while (rest.length > 0) {
    const taken = writevSync(file, rest, at);
    yield taken;
    at += taken;
    rest = without(rest, taken);
  }
}

function without(pieces: readonly Uint8Array[], taken: number): Uint8Array[] {
  let left = taken;
  const rest: Uint8Array[] = [];
  for (const piece of pieces) {
    if (left < piece.length) rest.push(left === 0 ? piece : piece.subarray(left));
    left = Math.max(0, left - piece.length);
  }
  return rest;
}

parentPort?.on("message", (order: Order) => parentPort?.postMessage(answerTo(order), []));
