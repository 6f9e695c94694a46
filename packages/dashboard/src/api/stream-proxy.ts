/** Joins a WebSocket of the page with one to the API server: exec and attach, frame by frame, with backpressure. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { Fault, getErrorMessage, getTraits, toFault, type Logger } from "@cocoon/core";
import { WebSocket, WebSocketServer, type RawData } from "ws";
import type { SignedIn } from "../auth/session-cookies.ts";
import { classifyRequest } from "./allowed-requests.ts";
import type { ProxyOptions } from "./proxy.ts";

const protocol = "v5.channel.k8s.io";
const statusChannel = 3;
const maxMessageBytes = 1024 * 1024;
const maxBufferedBytes = 1024 * 1024;
const pingIntervalMs = 20_000;
const maxStreams = 256;

export interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Path and query at the API server. */
  readonly path: string;
}

export class StreamProxy implements Disposable {
  readonly #options: ProxyOptions & { readonly log: Logger };
  readonly #server: WebSocketServer;

  constructor(options: ProxyOptions & { readonly log: Logger }) {
    this.#options = options;
    this.#server = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      handleProtocols: (offered) => (offered.has(protocol) ? protocol : false),
    });
  }

  accept({ request, socket, head, path }: UpgradeRequest, { token }: SignedIn): void {
    this.#assertAllowed(request, path);
    const remote = this.#options.upstream.connect(path, { token, protocols: [protocol] });
    const refuse = (error: Fault) =>
      this.#server.handleUpgrade(request, socket, head, (page) => sendRefusal(page, error));
    remote.once("unexpected-response", (_sent, answer: IncomingMessage) => {
      void readRefusal(answer).then(refuse);
    });
    remote.once("error", (error) => refuse(new Fault("unavailable", getErrorMessage(error))));
    socket.once("close", () => remote.terminate());
    remote.once("open", () => {
      remote.removeAllListeners("error");
      this.#server.handleUpgrade(request, socket, head, (page) => join(page, remote));
    });
  }

  #assertAllowed(request: IncomingMessage, path: string): void {
    const [plain = ""] = path.split("?");
    if (classifyRequest("GET", plain, { upgrade: true }) === undefined)
      throw new Fault("notFound", `the dashboard does not open streams to ${plain.slice(0, 200)}`);
    if (this.#options.readOnly) throw new Fault("forbidden", "this dashboard is read-only");
    if (request.headers["sec-websocket-protocol"]?.includes(protocol) !== true)
      throw new Fault("badRequest", `the stream must speak ${protocol}`);
    if (this.#server.clients.size >= maxStreams)
      throw new Fault("tooManyRequests", `${maxStreams} terminals are open; close some`);
  }

  [Symbol.dispose](): void {
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
  }
}

function join(page: WebSocket, remote: WebSocket): void {
  const pings = setInterval(() => page.ping(), pingIntervalMs);
  const end = () => {
    clearInterval(pings);
    for (const each of [page, remote]) if (each.readyState === WebSocket.OPEN) each.close(1000);
    setTimeout(() => [page, remote].forEach((each) => each.terminate()), 2_000).unref();
  };
  for (const [from, to] of [
    [page, remote],
    [remote, page],
  ] as const) {
    from.on("message", (data: RawData, binary: boolean) => pass(from, to, { data, binary }));
    from.on("close", end);
    from.on("error", end);
  }
}

function pass(
  from: WebSocket,
  to: WebSocket,
  { data, binary }: { readonly data: RawData; readonly binary: boolean },
): void {
  if (to.readyState !== WebSocket.OPEN) return;
  to.send(data, { binary }, () => {
    if (from.isPaused && to.bufferedAmount < maxBufferedBytes / 2) from.resume();
  });
  if (to.bufferedAmount > maxBufferedBytes) from.pause();
}

/** A browser cannot read the answer to a refused upgrade. So the stream is opened, ends at once, and its status says why. */
function sendRefusal(page: WebSocket, error: Fault): void {
  const { status: code, reason } = getTraits(error.code);
  const status = {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message: error.message,
  };
  page.on("error", () => page.terminate());
  page.send(Buffer.concat([Buffer.from([statusChannel]), Buffer.from(JSON.stringify(status))]));
  page.close(1000);
}

/** For what does not come from our page: it is told nothing but the refusal. */
export function refuseUpgrade(socket: Duplex, error: unknown): void {
  const fault = toFault(error);
  const { status, reason } = getTraits(fault.code);
  const body = `${fault.message}\n`;
  if (!socket.writable) return void socket.destroy();
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

async function readRefusal(answer: IncomingMessage): Promise<Fault> {
  let text = "";
  for await (const piece of answer.setEncoding("utf8") as AsyncIterable<string>)
    if (text.length < 4_096) text += piece;
  const status = answer.statusCode ?? 502;
  const code =
    status === 401
      ? "unauthorized"
      : status === 403
        ? "forbidden"
        : status === 404
          ? "notFound"
          : "unavailable";
  return new Fault(code, readMessage(text) ?? `the API server refused with ${status}`);
}

function readMessage(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { readonly message?: unknown };
    return typeof body.message === "string" ? body.message : undefined;
  } catch {
    return undefined;
  }
}
