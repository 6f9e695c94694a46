/** GET /containerLogs/{namespace}/{pod}/{container} */
import type { ServerResponse } from "node:http";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import type { ContainerTarget, LogOptions, PodProvider } from "../provider.ts";

interface LogRequest {
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

export function readLogQuery(
  query: URLSearchParams,
  signal: AbortSignal,
  now: () => number = Date.now,
): LogOptions {
  const sinceSeconds = readWhole(query, "sinceSeconds", 1);
  const sinceTime = query.get("sinceTime");
  if (sinceSeconds !== undefined && sinceTime)
    throw new Fault("badRequest", "only one of sinceSeconds and sinceTime may be given");
  return {
    tailLines: readWhole(query, "tailLines", 0),
    limitBytes: readWhole(query, "limitBytes", 1),
    follow: readFlag(query, "follow"),
    previous: readFlag(query, "previous"),
    timestamps: readFlag(query, "timestamps"),
    since: sinceSeconds === undefined ? readTime(sinceTime) : new Date(now() - sinceSeconds * 1000),
    signal,
  };
}

function readWhole(query: URLSearchParams, name: string, minimum: number): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= minimum) return value;
  throw new Fault("badRequest", `${name}=${text}: must be a whole number of at least ${minimum}`);
}

function readFlag(query: URLSearchParams, name: string): boolean {
  const text = query.get(name);
  if (text === null || text === "" || text === "false" || text === "0") return false;
  if (text === "true" || text === "1") return true;
  throw new Fault("badRequest", `${name}=${text}: must be true or false`);
}

function readTime(text: string | null): Date | undefined {
  if (!text) return undefined;
  const time = new Date(text);
  if (Number.isNaN(time.getTime()))
    throw new Fault("badRequest", `sinceTime=${text}: must be an RFC 3339 time`);
  return time;
}
