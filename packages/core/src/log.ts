/**
 * Structured logs: a constant lower-case message, variables as fields: `log.info({ pod: "ns/name", vm: id }, "vm started")`.
 * Levels: info = state changed, warn = needs attention, error = we failed, debug = the rest. Field names in use:
 * `pod`, `node`, `vm`, `set`, `object` (kind ns/name), `namespace`, `key`, `snapshot`, `digest`, `repo`,
 * `url`, `path`, `pid`, `port`, `tookMs`, `reconcileId`, `code` (fault code), `error` (text), `err` (with stack).
 */
import pino from "pino";
import pretty from "pino-pretty";
import { Fault } from "./fault.ts";

interface LogFunction {
  (fields: Readonly<Record<string, unknown>>, message: string): void;
  (message: string): void;
}

export interface Logger {
  readonly debug: LogFunction;
  readonly info: LogFunction;
  readonly warn: LogFunction;
  readonly error: LogFunction;
  child(fields: Readonly<Record<string, unknown>>): Logger;
}

/** The names that the Go systems accept, lower case; what pino calls them. */
const levels = {
  trace: "trace",
  debug: "debug",
  info: "info",
  warn: "warn",
  error: "error",
  fatal: "fatal",
  panic: "fatal",
  disabled: "silent",
} as const;

export type LogLevel = keyof typeof levels;

export const logLevels = Object.keys(levels) as [LogLevel, ...LogLevel[]];

export interface LogOptions {
  readonly name: string;
  readonly level?: string;
  readonly format?: "json" | "pretty";
  readonly destination?: NodeJS.WritableStream & { isTTY?: boolean };
}

const secretPaths = [
  "token",
  "password",
  "secret",
  "authorization",
  "*.token",
  "*.password",
  "*.secret",
  "*.authorization",
];

export function createLogger(options: LogOptions): Logger {
  const destination = options.destination ?? process.stdout;
  const format = options.format ?? (destination.isTTY ? "pretty" : "json");
  const stream = format === "pretty" ? prettyStream(destination) : destination;
  return pino(
    {
      name: options.name,
      level: pinoLevel(options.level ?? "info"),
      base: { name: options.name },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: secretPaths, censor: "***" },
    },
    stream,
  );
}

function prettyStream(destination: NodeJS.WritableStream): NodeJS.WritableStream {
  return pretty({ destination, ignore: "name", translateTime: "HH:MM:ss.l", singleLine: true, sync: true });
}

function pinoLevel(level: string): string {
  const known = logLevels.find((each) => each === level.toLowerCase());
  if (!known)
    throw new Fault("invalid", `log level "${level}" is unknown; use one of ${logLevels.join(", ")}`);
  return levels[known];
}

/** For tests, and for callers without a log. */
export const silentLogger: Logger = pino({ level: "silent" });
