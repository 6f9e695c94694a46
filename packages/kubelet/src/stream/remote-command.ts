/**
 * Exec and attach, whatever carries them. A transport (SPDY streams or WebSocket channels) hands over the standard
 * streams; the command runs; the transport delivers how it ended. A connection that is lost looks like success to
 * kubectl, so every failure of ours is written as a status first.
 */
import type { Readable, Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import { endOf, exited, type CommandEnd } from "./status.ts";
import type { TerminalSize } from "./terminal-size.ts";

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
  /** Delivers what is still buffered, then the status, then ends the connection. */
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
    end = endOf(error);
  }
  await transport.finish(end);
  return end;
}
