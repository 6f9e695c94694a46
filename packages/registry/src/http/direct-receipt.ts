/**
 * Large bodies go from the network straight into memory of their receiver. On its way through Node's HTTP parser every
 * 64 KiB of a body become a new block of memory, and making those cost more than the rest of receiving: without them a
 * push takes four fifths of the processor time.
 *
 * Node has this (`onread`) for connections that a program opens, not for those that it accepts, so an accepted one is
 * wrapped again here. The parser reads it as ever until somebody else listens to it: then Node takes the parser away,
 * and what comes next comes to us. It cannot be given back in the middle of a request, so the connection ends with the
 * answer. Where any of this does not work, bodies come by their stream as they always do.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Socket } from "node:net";

/** Whoever takes the bytes of a body. */
export interface Landing {
  /** Where the next bytes go, and nothing else until they came; undefined when there is no place now. */
  place(): Uint8Array | undefined;
  /** So many bytes came to that place. False: no more for now, please. */
  landed(bytes: number): boolean;
  /** Bytes that came while there was no place; they are the receiver's own. */
  strayed(bytes: Buffer): boolean;
}

/** Where bytes come that nobody gave a place to; they are copied before anything else can come. */
const anywhere = Buffer.allocUnsafeSlow(64 * 1024);

const receipts = new WeakMap<Socket, DirectReceipt>();
const offers = new WeakMap<object, DirectOffer>();

/** A body that can be taken directly. */
export interface DirectOffer {
  readonly receipt: DirectReceipt;
  readonly bodyBytes: number;
}

/** From now on large bodies that this server receives can be taken directly. For plain HTTP; to be called once. */
export function acceptForDirectReceipt(server: Server): void {
  const attach = server.listeners("connection")[0];
  if (!attach) return;
  server.off("connection", attach as () => void);
  server.on("connection", (accepted: Socket) => {
    const receipt = DirectReceipt.of(accepted);
    if (receipt) receipts.set(receipt.socket, receipt);
    attach.call(server, receipt?.socket ?? accepted);
  });
}

interface Answering {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Lets this body be taken directly, if its connection can; the connection then ends with the answer. */
export function offerDirectReceipt({ request, response }: Answering, bodyBytes: number): void {
  const receipt = receipts.get(request.socket);
  if (!receipt) return;
  response.setHeader("connection", "close");
  offers.set(request, { receipt, bodyBytes });
}

export function directOfferOf(body: object): DirectOffer | undefined {
  return offers.get(body);
}

/** What Node calls private: the connection below a socket, which another socket can be made of. */
interface WithHandle {
  _handle?: object | null;
}

class DirectReceipt {
  readonly socket: Socket;
  #landing: Landing | undefined;
  #isTaken = false;

  private constructor(handle: object) {
    const connection: object = { handle, allowHalfOpen: true };
    this.socket = new Socket({
      ...connection,
      onread: {
        buffer: () => this.#landing?.place() ?? anywhere,
        callback: (bytes, buffer) => this.#onBytes(bytes, buffer),
      },
    });
  }

  /** The accepted connection in a new socket. */
  static of(accepted: Socket & WithHandle): DirectReceipt | undefined {
    const handle = accepted._handle;
    if (!handle) return undefined;
    accepted._handle = null;
    const receipt = new DirectReceipt(handle);
    receipt.socket.once("close", () => accepted.destroy()); // the server counts the one that it accepted
    return receipt;
  }

  /** Never while the parser is at work on this connection, as in a handler that did not wait for anything yet. */
  take(landing: Landing): void {
    this.#landing = landing;
    this.#isTaken = true;
    this.socket.on("data", () => undefined);
    this.socket.pause(); // a full stream of the request may have stopped it without saying so
    this.socket.resume();
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  /**
   * What comes from now on is of no use to anybody. Told when bytes came, the place is free; told at any other time, the
   * next ones may still go there.
   */
  leave(): void {
    this.#landing = undefined;
  }

  #onBytes(bytes: number, buffer: Uint8Array): boolean {
    if (!this.#isTaken) return this.socket.push(Buffer.from(buffer.subarray(0, bytes)));
    if (!this.#landing) return true;
    return buffer === anywhere
      ? this.#landing.strayed(Buffer.from(anywhere.subarray(0, bytes)))
      : this.#landing.landed(bytes);
  }
}
