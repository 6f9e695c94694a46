/**
 * The connections of one HTTP server, from the first packet to the last: how many there are in total and per address,
 * which of them stopped moving data, and what is left of them when the server stops. A TLS connection counts from the
 * moment it is accepted, not from the end of its handshake.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { isIPv6, type Socket } from "node:net";

export interface ConnectionOptions {
  /** Connections of one address at a time; an IPv6 address counts by its /64 network. */
  readonly maxPerAddress: number;
  /** Addresses that may have any number, such as those of a load balancer. */
  readonly isUnlimited?: ((address: string) => boolean) | undefined;
  /** A request body or an answer that moves less than 1 KiB in so much time ends its connection. */
  readonly stallMs: number;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  receivedBytes: number;
  sentBytes: number;
  movedAtMs: number;
}

/** A body that moves fewer bytes than this within the stall time counts as stalled. */
const minBodyBytes = 1024;

export class HttpConnections implements Disposable {
  readonly #options: ConnectionOptions;
  readonly #sockets = new Set<Socket>();
  readonly #perAddress = new Map<string, number>();
  readonly #exchanges = new Set<Exchange>();
  readonly #stallMs = new WeakMap<Socket, number>();
  readonly #sweep: NodeJS.Timeout;

  constructor(server: Server, options: ConnectionOptions) {
    this.#options = options;
    server.on("connection", (socket: Socket) => this.#accept(socket));
    this.#sweep = setInterval(() => this.#endStalled(), Math.max(10, Math.min(options.stallMs / 4, 5_000)));
    this.#sweep.unref();
  }

  get size(): number {
    return this.#sockets.size;
  }

  /** Follows a request until its answer is complete or its connection closed. */
  track(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const exchange: Exchange = {
      request,
      socket,
      receivedBytes: 0,
      sentBytes: 0,
      movedAtMs: performance.now(),
    };
    this.#exchanges.add(exchange);
    response.once("close", () => this.#exchanges.delete(exchange));
  }

  /** Replaces the stall time of one connection, such as that of an authenticated caller. */
  setStallMs(socket: Socket, stallMs: number): void {
    this.#stallMs.set(socket, stallMs);
  }

  /** Closes every connection at once, whatever its state. */
  destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweep);
  }

  #accept(socket: Socket): void {
    const { remoteAddress: address } = socket;
    if (address === undefined) return void socket.destroy(); // it is closed already
    const key = readAddressKey(address);
    const count = (this.#perAddress.get(key) ?? 0) + 1;
    if (count > this.#options.maxPerAddress && !this.#options.isUnlimited?.(address)) {
      socket.destroy();
      return;
    }
    this.#perAddress.set(key, count);
    this.#sockets.add(socket);
    socket.once("close", () => this.#release(socket, key));
  }

  #release(socket: Socket, key: string): void {
    this.#sockets.delete(socket);
    const left = (this.#perAddress.get(key) ?? 1) - 1;
    if (left === 0) this.#perAddress.delete(key);
    else this.#perAddress.set(key, left);
  }

  #endStalled(): void {
    const nowMs = performance.now();
    for (const exchange of this.#exchanges) {
      const stallMs = this.#stallMs.get(exchange.socket) ?? this.#options.stallMs;
      if (!waitsForClient(exchange) || hasMoved(exchange)) exchange.movedAtMs = nowMs;
      else if (nowMs - exchange.movedAtMs > stallMs) exchange.socket.destroy();
    }
  }
}

/** Whether the next step is the client's: to send more of the body, or to read what was sent. */
function waitsForClient({ request, socket }: Exchange): boolean {
  return socket.writableLength > 0 || waitsForBody(request);
}

/** A request that the server does not read at the moment is not the client's fault. */
function waitsForBody(request: IncomingMessage): boolean {
  return !request.complete && request.readableFlowing === true && request.readableLength === 0;
}

/** Compares with the last time this was true. */
function hasMoved(exchange: Exchange): boolean {
  const { socket } = exchange;
  const receivedBytes = socket.bytesRead;
  const sentBytes = socket.bytesWritten - socket.writableLength;
  if (receivedBytes - exchange.receivedBytes < minBodyBytes && sentBytes === exchange.sentBytes) return false;
  exchange.receivedBytes = receivedBytes;
  exchange.sentBytes = sentBytes;
  return true;
}

/** One client can use any address of an IPv6 /64 network. */
function readAddressKey(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address;
  const [head = "", tail] = address.split("::");
  const start = head === "" ? [] : head.split(":");
  const end = tail ? tail.split(":") : [];
  const zeros = tail === undefined ? 0 : 8 - start.length - end.length;
  return [...start, ...Array.from({ length: zeros }, () => "0"), ...end].slice(0, 4).join(":");
}
