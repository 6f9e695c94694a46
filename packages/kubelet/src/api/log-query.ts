/** The query of a log request, with a kubelet's rules. */
import { Fault } from "@cocoon/core";
import type { LogOptions } from "../provider.ts";

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
