/**
 * Reads blobs. A connection that breaks is taken up again where it stopped, and the digest is checked over all
 * bytes, however many connections brought them.
 */
import { Backoff, Fault, isFault, sleep, toFault, type Abortable } from "@cocoon/core";
import { DigestCheck } from "../digest.ts";
import { describe, type Transport } from "./transport.ts";
import { readFault, getHeader, type WireResponse } from "./wire.ts";

export interface BlobPart {
  readonly digest: string;
  /** Size of the whole blob. */
  readonly size: number;
  /** First byte wanted; default 0. */
  readonly offset?: number;
  /** Bytes wanted; default everything from the offset on. */
  readonly length?: number;
}

export interface BlobSource {
  readonly transport: Transport;
  readonly url: URL;
  readonly scopes: readonly string[];
}

/**
 * The bytes, in order. When the whole blob was asked for, the digest is checked before the last step of the loop
 * returns; of a part only the length can be checked here, the caller knows what is inside.
 */
export async function* downloadBlob(
  source: BlobSource,
  part: BlobPart,
  { signal }: Abortable,
): AsyncGenerator<Uint8Array, void, undefined> {
  const at = part.offset ?? 0;
  const window: Window = { at, end: at + (part.length ?? part.size - at), size: part.size };
  if (at > 0 || window.end < part.size) {
    yield* continued(source, window, signal);
    return;
  }
  const check = new DigestCheck(part.digest, describe({ method: "GET", url: source.url }));
  for await (const piece of continued(source, window, signal)) {
    check.update(piece);
    yield piece;
  }
  check.verify();
}

interface Window {
  readonly at: number;
  readonly end: number;
  /** Of the whole blob. */
  readonly size: number;
}

/** Opens the blob again where it broke off, as long as now and then a byte arrives. */
async function* continued(
  source: BlobSource,
  { at: start, end, size }: Window,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const backoff = new Backoff(source.transport.retry);
  let at = start;
  for (;;) {
    try {
      for await (const piece of openAt(source, { at, end, size }, signal)) {
        at += piece.length;
        backoff.reset();
        yield piece;
      }
      if (at >= end) return;
      throw new Fault("unavailable", `${source.url.pathname}: the connection ended at byte ${at} of ${end}`);
    } catch (error) {
      if (signal.aborted || !isFragile(error)) throw error;
      if (backoff.failures + 1 >= source.transport.retry.attempts) throw toFault(error, source.url.pathname);
    }
    await sleep(backoff.nextMs(), { signal });
    signal.throwIfAborted();
  }
}

async function* openAt(
  source: BlobSource,
  window: Window,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { at, end, size } = window;
  const partial = at > 0 || end < size;
  const request = {
    method: "GET",
    url: source.url,
    scopes: source.scopes,
    repeatable: true,
    ...(partial ? { headers: { range: `bytes=${at}-${end - 1}` } } : {}),
  } as const;
  const response = await source.transport.send(request, { signal });
  if (response.status !== 200 && response.status !== 206) throw await readFault(response, describe(request));
  let skip = skippedBytes(response, window, partial);
  let left = end - at;
  for await (const piece of response.body) {
    const fresh = piece.subarray(Math.min(skip, piece.length));
    skip -= piece.length - fresh.length;
    // Only a server that ignored the range may send more than was asked for.
    if (fresh.length > left && !(partial && response.status === 200))
      throw new Fault("invalid", `${describe(request)}: more bytes than the ${size} that were announced`);
    const useful = fresh.subarray(0, left);
    left -= useful.length;
    if (useful.length > 0) yield useful;
    if (left === 0 && partial) break;
  }
}

/** A server that ignores ranges sends everything: what we have or do not want is passed over. */
function skippedBytes(response: WireResponse, { at, size }: Window, partial: boolean): number {
  if (response.status === 206) {
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(getHeader(response, "content-range") ?? "");
    if (!range || Number(range[1]) !== at)
      throw new Fault(
        "unavailable",
        `${response.url.pathname}: the answer is not the range that was asked for`,
      );
    return 0;
  }
  const length = getHeader(response, "content-length");
  if (length !== undefined && Number(length) !== size)
    throw new Fault("invalid", `${response.url.pathname}: ${length} bytes where ${size} were announced`);
  return partial ? at : 0;
}

/** Whether the connection was at fault and not the content or our right to it. */
function isFragile(error: unknown): boolean {
  return !isFault(error) || error.traits.retry;
}
