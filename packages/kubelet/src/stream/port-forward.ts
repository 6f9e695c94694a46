/**
 * Port-forward: each TCP connection is a pair of SPDY streams, data and error, joined by `requestid`. Text on an error stream
 * ends the whole `kubectl port-forward`, so it is written only for what concerns the session; a broken target resets its stream.
 */
import type { Duplex } from "node:stream";
import { createWebSocketStream, WebSocketServer } from "ws";
import { Fault, isFault, getErrorMessage } from "@cocoon/core";
import { defaultStreamTimes, type StreamTimes } from "./spdy-command.ts";
import type { SpdyHeaders } from "./spdy-headers.ts";
import { SpdySession, type SpdyStream } from "./spdy-session.ts";
import { headerValues, isWebSocket, refuseUpgrade, switchToSpdy, type UpgradeRequest } from "./upgrade.ts";

const spdyProtocol = "portforward.k8s.io";
/** SPDY bytes inside binary messages; the API server unwraps it, or passes it on to kubelets that declare it. */
const tunnelProtocol = "SPDY/3.1+portforward.k8s.io";

/** Opens a connection to a port of the pod. `notFound` and `invalid` end the session; anything else this connection. */
type PortConnector = (port: number, options: { readonly signal: AbortSignal }) => Promise<Duplex>;

export interface PortForwardOptions {
  readonly connect: PortConnector;
  readonly times?: StreamTimes;
  readonly onError?: (error: unknown, port: number) => void;
}

/** Serves until the client leaves. Resolves at once when the upgrade was refused. */
export async function servePortForward(upgrade: UpgradeRequest, options: PortForwardOptions): Promise<void> {
  const transport = isWebSocket(upgrade.request) ? await acceptTunnel(upgrade) : acceptSpdy(upgrade);
  if (!transport) return;
  const forwarder = new PortForwarder(transport, options);
  await forwarder.run(transport === upgrade.socket ? upgrade.head : Buffer.alloc(0));
}

function acceptSpdy(upgrade: UpgradeRequest): Duplex | undefined {
  return switchToSpdy(upgrade, [spdyProtocol]) ? upgrade.socket : undefined;
}

const tunnels = new WebSocketServer({
  noServer: true,
  perMessageDeflate: false,
  maxPayload: 4 * 1024 * 1024,
});
const echoTunnelProtocol = new WeakSet<object>();
tunnels.on("headers", (headers, request) => {
  if (echoTunnelProtocol.has(request)) headers.push(`Sec-WebSocket-Protocol: ${tunnelProtocol}`);
});

/** `ws` refuses the protocol's name because of its slash: it is taken out of the request and put into the answer. */
async function acceptTunnel(upgrade: UpgradeRequest): Promise<Duplex | undefined> {
  const offered = headerValues(upgrade.request, "sec-websocket-protocol");
  if (!offered.includes(tunnelProtocol)) {
    refuseUpgrade(
      upgrade,
      new Fault("badRequest", `port-forward over WebSocket needs the protocol ${tunnelProtocol}`),
    );
    return undefined;
  }
  delete upgrade.request.headers["sec-websocket-protocol"];
  echoTunnelProtocol.add(upgrade.request);
  return new Promise((resolve) => {
    tunnels.handleUpgrade(upgrade.request, upgrade.socket, upgrade.head, (socket) =>
      resolve(createWebSocketStream(socket)),
    );
  });
}

interface Pair {
  data?: SpdyStream;
  error?: SpdyStream;
  readonly port: number;
  readonly deadline: NodeJS.Timeout;
}

class PortForwarder {
  readonly #options: PortForwardOptions;
  readonly #session: SpdySession;
  readonly #times: StreamTimes;
  readonly #waiting = new Map<string, Pair>();

  constructor(transport: Duplex, options: PortForwardOptions) {
    this.#options = options;
    this.#times = options.times ?? defaultStreamTimes;
    this.#session = new SpdySession({
      transport,
      overflow: "resetStalled",
      idleTimeoutMs: this.#times.idleMs,
      pingIntervalMs: 10_000,
      onStream: (stream, headers) => this.#onStream(stream, headers),
    });
  }

  async run(head: Buffer): Promise<void> {
    this.#session.start(head);
    if (!this.#session.closed.aborted) {
      await new Promise((resolve) => this.#session.closed.addEventListener("abort", resolve, { once: true }));
    }
    for (const pair of this.#waiting.values()) clearTimeout(pair.deadline);
  }

  #onStream(stream: SpdyStream, headers: SpdyHeaders): void {
    const type = headers.get("streamtype");
    if (type !== "data" && type !== "error") throw new Fault("badRequest", `unknown stream type "${type}"`);
    const port = readPort(headers.get("port"));
    // Without a request id, the error stream n belongs to the data stream n + 2.
    const id = headers.get("requestid") ?? String(type === "error" ? stream.id : stream.id - 2);
    const pair = this.#waiting.get(id) ?? this.#newPair(id, port);
    if (pair[type] || pair.port !== port)
      throw new Fault("badRequest", `a second ${type} stream for request ${id}`);
    pair[type] = stream;
    if (pair.data && pair.error) {
      clearTimeout(pair.deadline);
      this.#waiting.delete(id);
      void this.#forward(pair.data, pair.error, port);
    }
  }

  #newPair(id: string, port: number): Pair {
    const deadline = setTimeout(() => {
      const late = this.#waiting.get(id);
      this.#waiting.delete(id);
      late?.data?.reset();
      late?.error?.reset();
    }, this.#times.creationMs);
    deadline.unref();
    const pair: Pair = { port, deadline };
    this.#waiting.set(id, pair);
    return pair;
  }

  async #forward(data: SpdyStream, error: SpdyStream, port: number): Promise<void> {
    error.resume();
    let target: Duplex;
    try {
      target = await this.#options.connect(port, { signal: this.#session.closed });
    } catch (failure) {
      this.#options.onError?.(failure, port);
      if (isFault(failure, "notFound") || isFault(failure, "invalid")) error.write(getErrorMessage(failure));
      data.reset();
      error.end();
      return;
    }
    if (data.destroyed) {
      target.destroy();
      error.end();
      return;
    }
    const broken = () => {
      data.reset();
      target.destroy();
    };
    target.on("error", (failure) => {
      this.#options.onError?.(failure, port);
      broken();
    });
    data.on("error", broken);
    data.on("close", () => {
      if (!target.writableFinished || !target.readableEnded) target.destroy();
      error.end();
    });
    data.pipe(target);
    target.pipe(data);
  }
}

function readPort(text: string | undefined): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new Fault("badRequest", `"${text}" is not a port`);
  return port;
}
