/** Joins streams of a guest with those of a client. */
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

/** Input that breaks off, or that the program does not want, is no failure of the command. */
export function feed(from: Readable | undefined, to: Writable): void {
  if (!from) {
    to.end();
    return;
  }
  pipeline(from, to).catch(() => undefined);
}

/** Resolves when the output is complete and handed on. */
export async function drain(from: Readable, to: Writable | undefined): Promise<void> {
  if (to) return pipeline(from, to, { end: false });
  from.resume();
  if (from.closed || from.readableEnded) return;
  await new Promise<void>((resolve) => {
    from.once("end", () => resolve());
    from.once("close", () => resolve());
  });
}
