/** Durations in Go's text form ("1h30m", "1.5s", "250ms"): environment variables of the Go systems use it. */
import { Fault } from "./fault.ts";

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "\u00b5s": 1e-3, // micro sign
  "\u03bcs": 1e-3, // Greek mu
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

const term = /(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/gy;

/** Milliseconds of a Go duration; undefined when the text is not one. */
export function tryParseDuration(text: string): number | undefined {
  const negative = text.startsWith("-");
  const body = negative || text.startsWith("+") ? text.slice(1) : text;
  if (body === "0") return 0;
  if (body === "") return undefined;
  let total = 0;
  let end = 0;
  term.lastIndex = 0;
  for (let match = term.exec(body); match !== null; match = term.exec(body)) {
    total += Number(match[1]) * (unitMs[match[2] ?? ""] ?? Number.NaN);
    end = term.lastIndex;
  }
  if (end !== body.length || !Number.isFinite(total)) return undefined;
  // To the nanosecond, as far as numbers go that far: 1.001 times 1,000 is a little less than 1,001.
  const nanoseconds = Math.round(total * 1e6);
  const exact = Number.isSafeInteger(nanoseconds) ? nanoseconds / 1e6 : total;
  return negative ? -exact : exact;
}

export function parseDuration(text: string): number {
  const ms = tryParseDuration(text);
  if (ms === undefined)
    throw new Fault("invalid", `"${text}" is not a duration; write for example 500ms, 15s or 1h30m`);
  return ms;
}

/** Go's own canonical form: 5400000 -> "1h30m0s". Below a second it uses ms, µs or ns. */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0s";
  const sign = ms < 0 ? "-" : "";
  const absolute = Math.abs(ms);
  if (absolute < 1e-3) return `${sign}${trim(absolute * 1e6)}ns`;
  if (absolute < 1) return `${sign}${trim(absolute * 1e3)}µs`;
  if (absolute < 1_000) return `${sign}${trim(absolute)}ms`;
  const hours = Math.floor(absolute / 3_600_000);
  const minutes = Math.floor((absolute % 3_600_000) / 60_000);
  const seconds = `${trim((absolute % 60_000) / 1_000)}s`;
  if (hours > 0) return `${sign}${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`;
}

function trim(value: number): string {
  return String(Number(value.toFixed(9)));
}
