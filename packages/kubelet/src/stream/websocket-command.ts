/** Exec and attach over WebSocket: channel number and bytes: 0 stdin, 1 stdout, 2 stderr, 3 error, 4 resize; v5: [255, 0] ends stdin. */
import { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import { WebSocket, WebSocketServer } from "ws";
import { gathering } from "./gathering.ts";
import { type CommandIo, type CommandQuery, type CommandTransport, terminalSizes } from "./remote-command.ts";
import { statusJson, statusText, type CommandEnd } from "./status.ts";
import { defaultStreamTimes, type StreamTimes } from "./spdy-command.ts";
import { headerValues, refuseUpgrade, type UpgradeRequest } from "./upgrade.ts";

const protocols = [
  "v5.channel.k8s.io",
  "v4.channel.k8s.io",
  "v4.base64.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
  "base64.channel.k8s.io",
];

/** What a protocol can do; one without a name is the oldest. */
function readProtocol(name: string) {
  return {
    base64: name.includes("base64"),
    status: name.startsWith("v5.") || name.startsWith("v4."),
    halfClose: name.startsWith("v5."),
  };
}

const channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const maximumMessageBytes = 1024 * 1024;
const maximumBufferedBytes = 4 * 1024 * 1024;
const pingIntervalMs = 5_000;

const server = new WebSocketServer({
  noServer: true,
  perMessageDeflate: false,
  maxPayload: maximumMessageBytes,
  handleProtocols: (offered) => protocols.find((each) => offered.has(each)) ?? false,
});

/** Undefined when the upgrade was refused; the answer is then already written. */
export async function acceptWebSocketCommand(
  upgrade: UpgradeRequest,
  query: CommandQuery,
  times: StreamTimes = defaultStreamTimes,
): Promise<CommandTransport | undefined> {
  const offered = headerValues(upgrade.request, "sec-websocket-protocol");
  const protocol = offered.length === 0 ? "" : protocols.find((each) => offered.includes(each));
  if (protocol === undefined) {
    refuseUpgrade(
      upgrade,
      new Fault("badRequest", `none of the WebSocket protocols ${offered.join(", ")} is supported`),
    );
    return undefined;
  }
  const socket = await new Promise<WebSocket>((resolve) => {
    server.handleUpgrade(upgrade.request, upgrade.socket, upgrade.head, resolve);
  });
  return new WebSocketCommand(socket, { protocol: readProtocol(protocol), query, times });
}

interface Settings {
  readonly protocol: ReturnType<typeof readProtocol>;
  readonly query: CommandQuery;
  readonly times: StreamTimes;
}

class WebSocketCommand implements CommandTransport {
  readonly io: CommandIo;
  readonly #socket: WebSocket;
  readonly #settings: Settings;
  readonly #closed = new AbortController();
  readonly #stdin: Readable | undefined;
  readonly #resize: Readable | undefined;
  #lastHeard = performance.now();

  constructor(socket: WebSocket, settings: Settings) {
    const { query } = settings;
    this.#socket = socket;
    this.#settings = settings;
    this.#stdin = query.stdin
      ? new Readable({ highWaterMark: 256 * 1024, read: () => socket.resume() })
      : undefined;
    this.#resize = query.tty ? new Readable({ read: () => undefined }) : undefined;
    this.io = {
      tty: query.tty,
      stdin: this.#stdin,
      stdout: query.stdout ? this.#output(channel.stdout) : undefined,
      stderr: query.stderr ? this.#output(channel.stderr) : undefined,
      resize: this.#resize ? terminalSizes(this.#resize) : undefined,
      signal: this.#closed.signal,
    };
    socket.on("message", (data: Buffer, isBinary) => this.#onMessage(data, isBinary));
    socket.on("pong", () => (this.#lastHeard = performance.now()));
    socket.on("error", () => socket.terminate());
    socket.on("close", () => this.#onClose());
    const timer = setInterval(() => this.#onTick(), pingIntervalMs);
    timer.unref();
    this.#closed.signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    // Proxies wait for the first message; browsers' clients expect it. An empty one says "connected".
    const lowest = query.stdout ? channel.stdout : query.stderr ? channel.stderr : channel.error;
    socket.send(this.#encode(lowest, Buffer.alloc(0)));
  }

  #onTick(): void {
    if (performance.now() - this.#lastHeard > this.#settings.times.idleMs) this.#socket.terminate();
    else this.#socket.ping();
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    this.#lastHeard = performance.now();
    const message = this.#decode(data, isBinary);
    if (!message) return;
    if (
      message.channel === channel.close &&
      this.#settings.protocol.halfClose &&
      message.bytes[0] === channel.stdin
    )
      this.#stdin?.push(null);
    else if (message.channel === channel.resize) this.#pushResize(message.bytes);
    else if (message.channel === channel.stdin) this.#pushStdin(message.bytes);
  }

  #pushStdin(bytes: Buffer): void {
    if (!this.#stdin || this.#stdin.readableEnded || bytes.length === 0) return;
    if (!this.#stdin.push(bytes) && this.#stdin.readableLength >= maximumBufferedBytes) this.#socket.pause();
  }

  /** Sizes are tiny; a command that never reads them must not collect them. */
  #pushResize(bytes: Buffer): void {
    if (this.#resize && this.#resize.readableLength < 4_096) this.#resize.push(bytes);
  }

  #onClose(): void {
    this.#closed.abort();
    this.#stdin?.push(null);
    this.#resize?.push(null);
  }

  #output(number: number): Writable {
    return new Writable({
      highWaterMark: 256 * 1024,
      write: (chunk: Buffer, _encoding, done) => this.#sendOutput(number, chunk, done),
      writev: (pieces, done) =>
        this.#sendOutput(number, Buffer.concat(pieces.map(({ chunk }) => chunk as Buffer)), done),
    });
  }

  #sendOutput(number: number, chunk: Buffer, done: (error?: Error | null) => void): void {
    const sent = gathering(chunk.length, done);
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(this.#encode(number, chunk), sent);
    else done(new Fault("unavailable", "the client left"));
  }

  #encode(number: number, bytes: Buffer): Buffer | string {
    if (this.#settings.protocol.base64) return `${number}${bytes.toString("base64")}`;
    return Buffer.concat([Buffer.from([number]), bytes]);
  }

  #decode(data: Buffer, isBinary: boolean): { readonly channel: number; readonly bytes: Buffer } | undefined {
    const first = data[0];
    if (first === undefined) return undefined;
    if (!this.#settings.protocol.base64)
      return isBinary ? { channel: first, bytes: data.subarray(1) } : undefined;
    return { channel: first - 0x30, bytes: Buffer.from(data.toString("latin1", 1), "base64") };
  }

  /** Output, status, close 1000; then keep reading: the client knows the end of output only from that close. */
  async finish(end: CommandEnd): Promise<void> {
    await Promise.all([flush(this.io.stdout), flush(this.io.stderr)]);
    const text = this.#settings.protocol.status ? statusJson(end) : statusText(end);
    if (this.#socket.readyState === WebSocket.OPEN) {
      if (text !== "") this.#socket.send(this.#encode(channel.error, Buffer.from(text)));
      this.#socket.close(1000);
    }
    this.#stdin?.resume();
    this.#socket.resume();
    if (this.#closed.signal.aborted) return;
    const timer = setTimeout(() => this.#socket.terminate(), this.#settings.times.lingerMs);
    await new Promise((resolve) => this.#closed.signal.addEventListener("abort", resolve, { once: true }));
    clearTimeout(timer);
  }
}

async function flush(stream: Writable | undefined): Promise<void> {
  if (!stream || stream.destroyed) return;
  stream.end();
  await finished(stream).catch(() => undefined);
}
