/**
 * A SPDY/3.1 connection as the side that accepts streams. Peers use no flow control: backpressure is the byte
 * stream's alone, so one unread stream can hold up all others. Each stream therefore buffers up to a cap; beyond it
 * the whole connection pauses until its reader has caught up. A slow reader is waited for; where there are many
 * streams (port-forward), one whose reader takes nothing at all for a while is reset, and the others go on.
 */
import { Duplex } from "node:stream";
import { Fault, messageOf } from "@cocoon/core";
import { gathering } from "./gathering.ts";
import { EmptyHeaderEncoder, HeaderDecoder, type SpdyHeaders } from "./spdy-headers.ts";
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
  streamIdOf,
  synReply,
} from "./spdy-frames.ts";

export interface SpdySessionOptions {
  /** Bytes of the upgraded connection: a socket, or a WebSocket tunnel. */
  readonly transport: Duplex;
  /** A new stream; throwing a Fault refuses it. */
  readonly onStream: (stream: SpdyStream, headers: SpdyHeaders) => void;
  readonly maximumStreams?: number;
  readonly maximumBufferedBytes?: number;
  readonly overflow: "pause" | "resetStalled";
  /** How long a reader may take nothing while its stream holds up the others. */
  readonly stallMs?: number;
  readonly pingIntervalMs?: number;
  /** Nothing heard for this long: the connection is taken for dead. */
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

  /** Ends this stream for both sides at once, telling the peer. */
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
  readonly #encoder = new EmptyHeaderEncoder();
  /** Streams whose readers are behind, and who looks whether they still read. */
  readonly #blocked = new Map<SpdyStream, NodeJS.Timeout | undefined>();
  readonly #closed = new AbortController();
  #lastStreamId = 0;
  #lastHeard = performance.now();
  #pingId = 0;

  constructor(options: SpdySessionOptions) {
    this.#options = { ...defaults, ...options };
  }

  /** Aborted when the connection is over, for whatever reason. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Begins to read. `head` is what arrived together with the upgrade request. */
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
        this.destroy(new Fault("badRequest", messageOf(error), { cause: error }));
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
    this.#pingId += 2; // even ids are ours
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

  /** A reader took what a stream had buffered. */
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
        if ((flags & 1) !== 0) this.#streams.get(streamIdOf(payload))?.push(null);
        break;
      case controlType.rstStream:
        this.#streams.get(streamIdOf(payload))?.destroy();
        break;
      case controlType.ping: {
        const id = readWord(payload);
        if (id % 2 === 1) this.#send(ping(id));
        break;
      }
      default: // SETTINGS, WINDOW_UPDATE, GOAWAY, SYN_REPLY and what nobody knows: nothing to do
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
    stream.on("error", () => undefined); // whoever uses the stream listens too; nobody must crash us
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
    if (this.#streams.has(stream.id)) this.#send(synReply(stream.id, this.#encoder.next()));
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
    if (this.#streams.has(stream.id)) this.#send(rstStream(stream.id, status));
    stream.destroy();
  }

  forget(stream: SpdyStream): void {
    this.#streams.delete(stream.id);
    this.onDrained(stream);
  }

  /** Says goodbye and lets what was written go out. */
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
