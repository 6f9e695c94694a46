/** The digest of a file's content, read from disk. */
import { createReadStream } from "node:fs";
import { Fault } from "@cocoon/core";
import { RunningDigest, type Digest, type DigestAlgorithm } from "../names.ts";

/** Throws when the file does not have exactly that many bytes. */
export async function hashFile(
  path: string,
  { algorithm, sizeBytes }: { readonly algorithm: DigestAlgorithm; readonly sizeBytes: number },
): Promise<Digest> {
  const running = new RunningDigest(algorithm);
  let total = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
    running.update(chunk);
    total += chunk.length;
  }
  if (total !== sizeBytes) throw new Fault("internal", `${path} has ${total} bytes instead of ${sizeBytes}`);
  return running.digest();
}
