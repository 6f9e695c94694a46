/** GET /containerLogs/{namespace}/{pod}/{container} */
import type { ServerResponse } from "node:http";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import type { ContainerTarget, PodProvider } from "../provider.ts";
import { readLogQuery } from "./log-query.ts";

export interface LogRequest {
  readonly provider: PodProvider;
  readonly target: ContainerTarget;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
}

export async function serveLogs({ provider, target, query, response }: LogRequest): Promise<void> {
  if (!provider.logs) throw new Fault("notSupported", "this node shows no logs");
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const options = readLogQuery(query, gone.signal);
  const source = await provider.logs(target, options);
  response.writeHead(200, { "content-type": "text/plain" });
  // At once: a follower of a silent log would otherwise not even see that it is connected.
  response.flushHeaders();
  try {
    if (options.limitBytes === undefined) await pipeline(source, response);
    else await pipeline(source, atMost(options.limitBytes), response);
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

/** Passes that many bytes, then ends. */
function atMost(limit: number): Transform {
  let left = limit;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (left > 0) this.push(chunk.subarray(0, left));
      left -= chunk.length;
      if (left <= 0) this.push(null);
      done();
    },
  });
}
