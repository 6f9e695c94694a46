/** Byte ranges, of requests for content (RFC 9110) and of upload chunks (the distribution specification). */
import type { ByteRange } from "../storage/storage.ts";

export type RangeAnswer =
  | { readonly kind: "whole" }
  | { readonly kind: "part"; readonly range: ByteRange }
  | { readonly kind: "unsatisfiable" };

/** What to send for a Range header. One range only; several, or another unit, are answered with the whole. */
export function readRange(header: string | undefined, sizeBytes: number): RangeAnswer {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? "");
  if (!match) return { kind: "whole" };
  const [first = "", last = ""] = match.slice(1);
  if (first === "" && last === "") return { kind: "whole" };
  if (first === "") return suffix(Number(last), sizeBytes);
  const start = Number(first);
  const end = last === "" ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1);
  if (start >= sizeBytes || (last !== "" && Number(last) < start)) return { kind: "unsatisfiable" };
  return { kind: "part", range: { start, end } };
}

function suffix(length: number, sizeBytes: number): RangeAnswer {
  if (length === 0 || sizeBytes === 0) return { kind: "unsatisfiable" };
  return { kind: "part", range: { start: Math.max(0, sizeBytes - length), end: sizeBytes - 1 } };
}

/** `start-end`, inclusive, of an upload chunk; undefined when malformed. */
export function tryChunkRange(header: string): ByteRange | undefined {
  const match = /^(?:bytes )?(\d{1,15})-(\d{1,15})(?:\/(?:\d+|\*))?$/.exec(header.trim());
  if (!match) return undefined;
  const [start, end] = [Number(match[1]), Number(match[2])];
  return end >= start ? { start, end } : undefined;
}
