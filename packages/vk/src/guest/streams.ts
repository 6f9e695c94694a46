/** Joins streams of a guest with those of a client. */
import type { Duplex, Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { CommandIo } from "@cocoon/kubelet";

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

/** A console or screen, until one of the two sides leaves. Leaving it ends nothing in the guest. */
export async function joinStream(stream: Duplex, io: CommandIo): Promise<number> {
  const leave = () => stream.destroy();
  io.signal.addEventListener("abort", leave, { once: true });
  stream.on("error", () => undefined);
  try {
    if (io.stdin) feed(io.stdin, stream);
    await drain(stream, io.stdout);
    return 0;
  } catch (error) {
    if (io.signal.aborted) return 0;
    throw error;
  } finally {
    io.signal.removeEventListener("abort", leave);
    stream.destroy();
  }
}
