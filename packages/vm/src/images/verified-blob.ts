/** Reads a blob as the bytes it was promised to be: exact size, exact digest, or a fault and never a quiet difference. */
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";
import type { SourceBlob } from "./image-source.ts";

export async function* readVerified(blob: SourceBlob, { signal }: Abortable): AsyncGenerator<Buffer> {
  const [algorithm = "", expected = ""] = blob.digest.split(":");
  if (algorithm !== "sha256" && algorithm !== "sha512") {
    throw new Fault("notSupported", `the digest ${blob.digest} is neither sha256 nor sha512`);
  }
  const hash = createHash(algorithm);
  let bytes = 0;
  const stream: Readable = await blob.open({ signal });
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    bytes += chunk.length;
    if (bytes > blob.sizeBytes) throw wrong(blob, `more than the ${blob.sizeBytes} bytes announced`);
    hash.update(chunk);
    yield chunk;
  }
  if (bytes !== blob.sizeBytes) throw wrong(blob, `${bytes} of ${blob.sizeBytes} bytes`);
  const actual = hash.digest("hex");
  if (actual !== expected) throw wrong(blob, `content with ${algorithm}:${actual}`);
}

function wrong(blob: SourceBlob, what: string): Fault {
  return new Fault("invalid", `the registry sent ${what} for ${blob.digest}`);
}
