/** The client's side of exec and port-forward over SPDY/3.1, on a connection that the API server has already switched. */
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { Fault } from "@cocoon/core";
import { SpdySession, type SpdyStream } from "./spdy-session.ts";

export const spdyUpgrade = "SPDY/3.1";
export const portForwardProtocol = "portforward.k8s.io";
export const commandProtocol = "v4.channel.k8s.io";

/** A session of port-forward. Each connection to a port is a pair of streams. */
export class PortForwardClient implements Disposable {
  readonly #session: SpdySession;
  #requests = 0;

  constructor(transport: Duplex) {
    this.#session = openSession(transport);
  }

  get closed(): AbortSignal {
    return this.#session.closed;
  }

  /** Data may be written at once. A connection that cannot be made is closed; `failure` then says why, as far as is known. */
  connect(port: number): { readonly connection: Duplex; readonly failure: Promise<string> } {
    const requestid = String(this.#requests++);
    const headers = { port: String(port), requestid };
    const error = this.#session.open({ ...headers, streamtype: "error" });
    error.end();
    const connection = this.#session.open({ ...headers, streamtype: "data" });
    const failure = readAll(error);
    return { connection, failure };
  }

  [Symbol.dispose](): void {
    this.#session.destroy();
  }
}

export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: string;
}

/** Runs a command to its end: all of its input is known before, its output is small. `status` is the Status object as text. */
export async function runSpdyCommand(transport: Duplex, input: string): Promise<CommandResult> {
  const session = openSession(transport);
  try {
    const error = session.open({ streamtype: "error" });
    const stdin = session.open({ streamtype: "stdin" });
    const stdout = session.open({ streamtype: "stdout" });
    const stderr = session.open({ streamtype: "stderr" });
    stdin.end(input);
    const [out, err, status] = await Promise.all([readAll(stdout), readAll(stderr), readAll(error)]);
    if (status === "") throw new Fault("unavailable", "the connection ended before the command did");
    return { stdout: out, stderr: err, status };
  } finally {
    session.destroy();
  }
}

function openSession(transport: Duplex): SpdySession {
  const onStream = (stream: SpdyStream) => stream.reset();
  const session = new SpdySession({
    transport,
    onStream,
    overflow: "pause",
    side: "client",
    pingIntervalMs: 30_000,
  });
  session.start(Buffer.alloc(0));
  return session;
}

/** What came until the stream ended, or was cut. */
async function readAll(stream: SpdyStream): Promise<string> {
  try {
    return await text(stream);
  } catch {
    return "";
  }
}
