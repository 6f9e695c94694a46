/** The body of a request, whole and bounded. */
import { Fault } from "@cocoon/core";
import type { IncomingMessage } from "node:http";

/**
 * Resolves with the body; rejects with `tooLarge` as soon as that is certain, or `unavailable` when the client goes
 * away first. On `tooLarge` the rest is left unread.
 */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;
    const stop = (fault: Fault) => {
      request.removeAllListeners("data");
      request.pause();
      reject(fault);
    };
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) {
      request.on("error", ignore);
      return stop(tooLarge(maxBytes));
    }
    request.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (received > maxBytes) stop(tooLarge(maxBytes));
      else chunks.push(chunk);
    });
    // The usual body arrives in one TLS record and needs no copy.
    request.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, received)),
    );
    request.on("error", (error) =>
      reject(new Fault("unavailable", "the client went away", { cause: error })),
    );
    request.on("close", () => {
      if (!request.complete) reject(new Fault("unavailable", "the client went away"));
    });
  });
}

function ignore(): void {
  // An aborted upload was already answered.
}

function tooLarge(maxBytes: number): Fault {
  return new Fault("tooLarge", `request entity is too large; limit is ${maxBytes} bytes`);
}
