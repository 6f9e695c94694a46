/**
 * A SPDY/3.1 connection: the side that accepts streams, or with `side: "client"` the one that opens them. Peers use no flow control, so one unread stream can hold up all others:
 * each buffers up to a cap, then the connection pauses. With many streams (port-forward) a stalled one is reset instead.
 */
import { Duplex } from "node:stream";
import { Fault, getErrorMessage } from "@cocoon/core";
import { gathering } from "./gathering.ts";
import { HeaderDecoder, HeaderEncoder, type SpdyHeaders } from "./spdy-headers.ts";
import {
  controlType,
  dataFrame,
  FrameParser,
  goAway,
  headersBlock,
  ping,
  readSynStream,
  readWord,
  resetStatus,
  rstStream,
  readStreamId,
  synReply,
  synStream,
} from "./spdy-frames.ts";

export interface SpdySessionOptions {
  readonly transport: Duplex;
  readonly onStream: (stream: SpdyStream, headers: SpdyHeaders) => void;
  readonly maximumStreams?: number;
  readonly maximumBufferedBytes?: number;
  readonly overflow: "pause" | "resetStalled";
  readonly side?: "client" | "server";
  /** How long a reader may take nothing while its stream holds up the others. */
  readonly stallMs?: number;
  readonly pingIntervalMs?: number;
  readonly idleTimeoutMs?: number;
}

const defaults = {
  maximumStreams: 1_000,
  maximumBufferedBytes: 4 * 1024 * 1024,
  pingIntervalMs: 5_000,
  idleTimeoutMs: 4 * 3_600_000,
  stallMs: 5_000,
};
/** 32 to 64 KiB measured best; smaller halves the throughput, larger is slower again. */
const frameBytes = 32 * 1024;
const nothing = new Uint8Array(0);

export class SpdyStream extends Duplex {
  readonly id: number;
  readonly #session: SpdySession;

  constructor(session: SpdySession, id: number) {
    super({ allowHalfOpen: true, autoDestroy: true, emitClose: true, readableHighWaterMark: 256 * 1024 });
    this.#session = session;
    this.id = id;
  }

  reset(status: number = resetStatus.cancel): void {
    this.#session.reset(this, status);
  }

  override _read(): void {
    this.#session.onDrained(this);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#session.sendData(this.id, chunk, gathering(chunk.length, done));
  }

  override _writev(pieces: { readonly chunk: Buffer }[], done: (error?: Error | null) => void): void {
    const chunk = Buffer.concat(pieces.map((piece) => piece.chunk));
    this.#session.sendData(this.id, chunk, gathering(chunk.length, done));
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#session.sendEnd(this.id, done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#session.forget(this);
    done(error);
  }
}

export class SpdySession {
  readonly #options: SpdySessionOptions & typeof defaults;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #decoder = new HeaderDecoder();
  readonly #encoder = new HeaderEncoder();
  /** Streams whose readers are behind, and who looks whether they still read. */
  readonly #blocked = new Map<SpdyStream, NodeJS.Timeout | undefined>();
  readonly #closed = new AbortController();
  readonly closed: AbortSignal = this.#closed.signal;
  #lastStreamId = 0;
  #lastHeard = performance.now();
  #pingId = 0;

  constructor(options: SpdySessionOptions) {
    this.#options = { ...defaults, ...options };
    if (this.#options.side === "client") this.#pingId = -1;
  }

  /** Opens a stream; what the peer refuses is closed without an end. */
  open(headers: Readonly<Record<string, string>>): SpdyStream {
    const id = this.#lastStreamId === 0 ? 1 : this.#lastStreamId + 2;
    this.#lastStreamId = id;
    const stream = new SpdyStream(this, id);
    stream.on("error", () => undefined);
    this.#streams.set(id, stream);
    this.#send(synStream(id, this.#encoder.encode(headers)));
    return stream;
  }

  start(head: Buffer): void {
    const { transport, pingIntervalMs } = this.#options;
    const parser = new FrameParser({
      onData: (streamId, piece, end) => this.#onData(streamId, piece, end),
      onControl: (type, flags, payload) => this.#onControl(type, flags, payload),
    });
    const read = (chunk: Buffer) => {
      this.#lastHeard = performance.now();
      try {
        parser.push(chunk);
      } catch (error) {
        this.destroy(new Fault("badRequest", getErrorMessage(error), { cause: error }));
      }
    };
    transport.on("data", read);
    transport.on("end", () => this.#onEnd());
    transport.on("error", (error) => this.destroy(error));
    transport.on("close", () => this.destroy());
    const timer = setInterval(() => this.#onTick(), pingIntervalMs);
    timer.unref();
    this.closed.addEventListener("abort", () => clearInterval(timer), { once: true });
    if (head.length > 0) read(head);
  }

  #onTick(): void {
    if (performance.now() - this.#lastHeard > this.#options.idleTimeoutMs) {
      this.destroy(new Fault("timeout", "the connection was idle for too long"));
      return;
    }
    this.#pingId += 2; // even ids are the server's
    this.#send(ping(this.#pingId));
  }

  #onData(streamId: number, piece: Buffer, end: boolean): void {
    const stream = this.#streams.get(streamId);
    if (!stream) return; // late data of a stream that is already gone: the peer will hear of its end
    if (piece.length > 0 && !stream.push(piece)) this.#onFull(stream);
    if (end) stream.push(null);
  }

  #onFull(stream: SpdyStream): void {
    if (stream.readableLength < this.#options.maximumBufferedBytes) return;
    if (!this.#blocked.has(stream)) this.#block(stream);
    this.#options.transport.pause();
  }

  #block(stream: SpdyStream): void {
    if (this.#options.overflow === "pause") {
      this.#blocked.set(stream, undefined);
      return;
    }
    const before = stream.readableLength;
    const look = () => {
      if (stream.readableLength < before) this.#block(stream);
      else stream.reset(resetStatus.cancel);
    };
    // After a pause of our own the timer is due before the reader was heard: those who are ready come first.
    const lookLast = () => setImmediate(() => this.#blocked.get(stream) === timer && look());
    const timer = setTimeout(lookLast, this.#options.stallMs);
    this.#blocked.set(stream, timer.unref());
  }

  onDrained(stream: SpdyStream): void {
    clearTimeout(this.#blocked.get(stream));
    if (!this.#blocked.delete(stream) || this.#blocked.size > 0) return;
    this.#options.transport.resume();
  }

  #onControl(type: number, flags: number, payload: Buffer): void {
    switch (type) {
      case controlType.synStream:
        this.#onSynStream(flags, payload);
        break;
      case controlType.headers:
        this.#decoder.decode(headersBlock(payload));
        if ((flags & 1) !== 0) this.#streams.get(readStreamId(payload))?.push(null);
        break;
      case controlType.rstStream:
        this.#streams.get(readStreamId(payload))?.destroy();
        break;
      case controlType.ping: {
        const id = readWord(payload);
        if (id % 2 === (this.#options.side === "client" ? 0 : 1)) this.#send(ping(id));
        break;
      }
      default: // SETTINGS, WINDOW_UPDATE, GOAWAY, SYN_REPLY (its headers are not read) and unknown types: nothing to do
    }
  }

  #onSynStream(flags: number, payload: Buffer): void {
    const { streamId, fin, headerBlock } = readSynStream(flags, payload);
    const headers = this.#decoder.decode(headerBlock);
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId) {
      throw new Fault("badRequest", `SPDY stream id ${streamId} after ${this.#lastStreamId}`);
    }
    this.#lastStreamId = streamId;
    if (this.#streams.size >= this.#options.maximumStreams) {
      this.#send(rstStream(streamId, resetStatus.refused));
      return;
    }
    const stream = new SpdyStream(this, streamId);
    stream.on("error", () => undefined); // users of the stream listen too; an unhandled error must not end the process
    this.#streams.set(streamId, stream);
    this.#accept(stream, headers);
    if (fin) stream.push(null);
  }

  /** The peer waits for each reply before it opens the next stream. */
  #accept(stream: SpdyStream, headers: SpdyHeaders): void {
    try {
      this.#options.onStream(stream, headers);
    } catch {
      stream.reset(resetStatus.refused);
      return;
    }
    if (this.#streams.has(stream.id)) this.#send(synReply(stream.id, this.#encoder.empty()));
  }

  sendData(streamId: number, chunk: Buffer, done: (error?: Error | null) => void): void {
    const { transport } = this.#options;
    if (!this.#writable()) {
      done(new Fault("unavailable", "the connection is closed"));
      return;
    }
    transport.cork();
    for (let offset = 0; offset < chunk.length; offset += frameBytes) {
      const frame = dataFrame(streamId, chunk.subarray(offset, offset + frameBytes));
      if (offset + frameBytes >= chunk.length) transport.write(frame, done);
      else transport.write(frame);
    }
    transport.uncork();
    if (chunk.length === 0) done();
  }

  sendEnd(streamId: number, done: (error?: Error | null) => void): void {
    if (this.#writable() && this.#streams.has(streamId))
      this.#options.transport.write(dataFrame(streamId, nothing, true), done);
    else done();
  }

  reset(stream: SpdyStream, status: number): void {
    if (this.#streams.delete(stream.id)) this.#send(rstStream(stream.id, status));
    stream.destroy();
  }

  forget(stream: SpdyStream): void {
    const known = this.#streams.delete(stream.id);
    // A client that leaves early says so: the other side would keep its end open.
    if (known && this.#options.side === "client" && !(stream.writableFinished && stream.readableEnded))
      this.#send(rstStream(stream.id, resetStatus.cancel));
    this.onDrained(stream);
  }

  end(): void {
    if (!this.#writable()) return;
    this.#send(goAway(this.#lastStreamId));
    this.#options.transport.end();
  }

  /** The peer sends no more: every stream has seen its end. */
  #onEnd(): void {
    for (const stream of this.#streams.values()) stream.push(null);
    this.#closed.abort();
    this.end();
  }

  destroy(error?: Error): void {
    this.#closed.abort(error);
    for (const stream of this.#streams.values()) stream.destroy();
    this.#options.transport.destroy();
  }

  #writable(): boolean {
    return this.#options.transport.writable && !this.#options.transport.writableEnded;
  }

  #send(frame: Buffer): void {
    if (this.#writable()) this.#options.transport.write(frame);
  }
}
