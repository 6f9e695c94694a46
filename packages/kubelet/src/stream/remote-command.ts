/**
 * Exec and attach over SPDY streams or WebSocket channels. A lost connection looks like success to kubectl, so every failure of
 * ours is written as a status first.
 */
import type { Readable, Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import { buildEnd, exited, type CommandEnd } from "./status.ts";

export interface CommandIo {
  readonly tty: boolean;
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  /** Never with a tty: the terminal has one output. */
  readonly stderr: Writable | undefined;
  readonly resize: AsyncIterable<TerminalSize> | undefined;
  /** Aborted when the client is gone: end the command. */
  readonly signal: AbortSignal;
}

/** Runs until the command's output is complete; returns its exit code (128 + n for a signal). */
export type CommandRunner = (io: CommandIo) => Promise<number>;

export interface CommandTransport {
  readonly io: CommandIo;
  finish(end: CommandEnd): Promise<void>;
}

export interface CommandQuery {
  readonly command: readonly string[];
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Throws `badRequest` where a kubelet would answer 400. */
export function readCommandQuery(query: URLSearchParams): CommandQuery {
  // kubectl spells it input/output/error towards a kubelet, stdin/stdout/stderr towards an API server.
  const isSet = (...names: string[]) => names.some((name) => ["1", "true"].includes(query.get(name) ?? ""));
  const wanted = {
    command: query.getAll("command"),
    stdin: isSet("input", "stdin"),
    stdout: isSet("output", "stdout"),
    stderr: isSet("error", "stderr"),
    tty: isSet("tty"),
  };
  if (!wanted.stdin && !wanted.stdout && !wanted.stderr) {
    throw new Fault("badRequest", "you must specify at least 1 of stdin, stdout, stderr");
  }
  if (wanted.tty && wanted.stderr) throw new Fault("badRequest", "tty and stderr cannot both be true");
  return wanted;
}

export async function serveCommand(transport: CommandTransport, run: CommandRunner): Promise<CommandEnd> {
  let end: CommandEnd;
  try {
    end = exited(await run(transport.io));
  } catch (error) {
    end = buildEnd(error);
  }
  await transport.finish(end);
  return end;
}

/** Sizes of the user's terminal: a sequence of JSON objects, cut into messages anyhow. */
export interface TerminalSize {
  readonly width: number;
  readonly height: number;
}

const maximumPendingBytes = 4_096;
const largest = 65_535;

/** Yields each well-formed size; what is not one is passed over. Ends with the stream, also when that breaks off. */
export async function* terminalSizes(source: Readable): AsyncGenerator<TerminalSize> {
  try {
    yield* readSizes(source);
  } catch {
    // Sizes are advice. A lost connection ends them like any other end; the command hears of it by its signal.
  }
}

async function* readSizes(source: Readable): AsyncGenerator<TerminalSize> {
  let pending = "";
  for await (const chunk of source) {
    pending += String(chunk);
    for (let end = pending.indexOf("}"); end >= 0; end = pending.indexOf("}")) {
      const size = readSize(pending.slice(0, end + 1));
      pending = pending.slice(end + 1);
      if (size) yield size;
    }
    if (pending.length > maximumPendingBytes) pending = "";
  }
}

function readSize(text: string): TerminalSize | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined; // the next object may be whole again
  }
  if (typeof value !== "object" || value === null || !("Width" in value) || !("Height" in value))
    return undefined;
  const [width, height] = [Number(value.Width), Number(value.Height)];
  const fits = (side: number) => Number.isInteger(side) && side >= 0 && side <= largest;
  return fits(width) && fits(height) ? { width, height } : undefined;
}
