import type { Writable } from "node:stream";

/**
 * Done when the sink took the chunk, or when nobody wants it any more: an HTTP answer whose client is gone may never say
 * so of a chunk that it still held, and whoever waited for that would keep its file open for ever.
 */
export function writeTo(sink: Writable, chunk: Uint8Array, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const abandon = () => reject(signal.reason as Error);
    signal.addEventListener("abort", abandon, { once: true });
    sink.write(chunk, (error) => {
      signal.removeEventListener("abort", abandon);
      if (error) reject(error);
      else resolve();
    });
  });
}
