import type { Writable } from "node:stream";

/**
 * Done when the sink took the chunk, or when the copy is aborted: an HTTP answer whose client is gone may never report a
 * chunk that it still held, and waiting for that would keep the file open for ever.
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
