/** Exec and attach over SPDY/3.1: one stream each for error, stdin, stdout, stderr and resize. */
import { once } from "node:events";
import { finished } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import { type CommandQuery, type CommandTransport, terminalSizes } from "./remote-command.ts";
import { statusJson, statusText, type CommandEnd } from "./status.ts";
import { SpdySession, type SpdyStream } from "./spdy-session.ts";
import { switchToSpdy, type UpgradeRequest } from "./upgrade.ts";

const protocols = [
  "v5.channel.k8s.io",
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
];
const withoutResize = new Set(["v2.channel.k8s.io", "channel.k8s.io"]);
const withStatus = new Set(["v5.channel.k8s.io", "v4.channel.k8s.io"]);

export interface StreamTimes {
  readonly creationMs: number;
  readonly idleMs: number;
  readonly lingerMs: number;
}

export const defaultStreamTimes: StreamTimes = {
  creationMs: 30_000,
  idleMs: 4 * 3_600_000,
  lingerMs: 10_000,
};

type StreamType = "error" | "stdin" | "stdout" | "stderr" | "resize";

/** Undefined when the upgrade was refused; the answer is then already written. */
export async function acceptSpdyCommand(
  upgrade: UpgradeRequest,
  query: CommandQuery,
  times: StreamTimes = defaultStreamTimes,
): Promise<CommandTransport | undefined> {
  const protocol = switchToSpdy(upgrade, protocols);
  if (!protocol) return undefined;
  const expected = expectedStreams(query, protocol);
  const streams = new Map<StreamType, SpdyStream>();
  const { promise: complete, resolve: allThere, reject: missing } = Promise.withResolvers<undefined>();
  const session = new SpdySession({
    transport: upgrade.socket,
    overflow: "pause",
    idleTimeoutMs: times.idleMs,
    maximumStreams: expected.size,
    onStream: (stream, headers) => {
      const type = headers.get("streamtype") as StreamType;
      if (!expected.has(type) || streams.has(type))
        throw new Fault("badRequest", `unexpected stream type "${type}"`);
      streams.set(type, stream);
      if (streams.size === expected.size) allThere(undefined);
    },
  });
  const deadline = setTimeout(
    () => missing(new Fault("timeout", "timed out waiting for the client's streams")),
    times.creationMs,
  );
  session.closed.addEventListener("abort", () => missing(new Fault("unavailable", "the client left")), {
    once: true,
  });
  session.start(upgrade.head);
  try {
    await complete;
  } catch (error) {
    session.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
  }
  const resize = streams.get("resize");
  return {
    io: {
      tty: query.tty,
      stdin: streams.get("stdin"),
      stdout: streams.get("stdout"),
      stderr: streams.get("stderr"),
      resize: resize ? terminalSizes(resize) : undefined,
      signal: session.closed,
    },
    finish: (end) => finishSession({ session, streams, protocol, end, lingerMs: times.lingerMs }),
  };
}

function expectedStreams(query: CommandQuery, protocol: string): Set<StreamType> {
  const expected = new Set<StreamType>(["error"]);
  if (query.stdin) expected.add("stdin");
  if (query.stdout) expected.add("stdout");
  if (query.stderr) expected.add("stderr");
  if (query.tty && !withoutResize.has(protocol)) expected.add("resize");
  return expected;
}

interface Finish {
  readonly session: SpdySession;
  readonly streams: ReadonlyMap<StreamType, SpdyStream>;
  readonly protocol: string;
  readonly end: CommandEnd;
  readonly lingerMs: number;
}

/** Output, status, then the rest. We read until the client hangs up: closing while it sends makes the kernel reset the connection. */
async function finishSession({ session, streams, protocol, end, lingerMs }: Finish): Promise<void> {
  await Promise.all([flush(streams.get("stdout")), flush(streams.get("stderr"))]);
  const error = streams.get("error");
  if (error && !error.destroyed) {
    error.write(withStatus.has(protocol) ? statusJson(end) : statusText(end));
    await flush(error);
  }
  for (const stream of streams.values()) stream.end().resume();
  if (!session.closed.aborted) {
    await Promise.race([
      once(session.closed, "abort"),
      new Promise((resolve) => setTimeout(resolve, lingerMs).unref()),
    ]);
  }
  session.end();
}

/** Ends a stream and waits until its bytes are handed over; a peer that reset it does not want them. */
async function flush(stream: SpdyStream | undefined): Promise<void> {
  if (!stream || stream.destroyed) return;
  stream.end();
  await finished(stream, { readable: false }).catch(() => undefined);
}
