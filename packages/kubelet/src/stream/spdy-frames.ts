/**
 * SPDY/3.1 frames, bytes in and bytes out. Data is handed on in pieces; only control frames, which are small, are assembled.
 *
 *   control  1|version(15)=3|type(16)   flags(8)|length(24)   payload
 *   data     0|stream id(31)            flags(8)|length(24)   bytes
 */
import { Fault } from "@cocoon/core";

export const controlType = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;

export const resetStatus = {
  protocolError: 1,
  invalidStream: 2,
  refused: 3,
  cancel: 5,
  internalError: 6,
} as const;

const flagFin = 0x01;
const headerBytes = 8;
const spdyVersion = 3;
const maximumControlBytes = 64 * 1024;
const idMask = 0x7fff_ffff;

export interface FrameHandler {
  onData(streamId: number, piece: Buffer, end: boolean): void;
  onControl(type: number, flags: number, payload: Buffer): void;
}

export class FrameParser {
  readonly #handler: FrameHandler;
  readonly #header = Buffer.alloc(headerBytes);
  #headerFilled = 0;
  #left = 0;
  #flags = 0;
  #streamId = 0;
  #control: { readonly type: number; readonly payload: Buffer; filled: number } | undefined;

  constructor(handler: FrameHandler) {
    this.#handler = handler;
  }

  /** Throws `badRequest` when the bytes are not SPDY/3.1; the connection is then of no use any more. */
  push(chunk: Buffer): void {
    let offset = 0;
    while (offset < chunk.length) {
      offset +=
        this.#headerFilled < headerBytes ? this.#takeHeader(chunk, offset) : this.#takeBody(chunk, offset);
    }
  }

  #takeHeader(chunk: Buffer, offset: number): number {
    const taken = Math.min(headerBytes - this.#headerFilled, chunk.length - offset);
    chunk.copy(this.#header, this.#headerFilled, offset, offset + taken);
    this.#headerFilled += taken;
    if (this.#headerFilled === headerBytes) this.#beginFrame();
    return taken;
  }

  #beginFrame(): void {
    const first = this.#header.readUInt32BE(0);
    this.#flags = this.#header[4] ?? 0;
    this.#left = this.#header.readUIntBE(5, 3);
    if (first >>> 31 === 1) this.#beginControl((first >>> 16) & 0x7fff, first & 0xffff);
    else this.#streamId = first & idMask;
    if (this.#left === 0) this.#endFrame(Buffer.alloc(0));
  }

  #beginControl(version: number, type: number): void {
    if (version !== spdyVersion) throw new Fault("badRequest", `SPDY version ${version} is not supported`);
    if (this.#left > maximumControlBytes)
      throw new Fault("badRequest", `SPDY control frame of ${this.#left} bytes`);
    this.#control = { type, payload: Buffer.alloc(this.#left), filled: 0 };
  }

  #takeBody(chunk: Buffer, offset: number): number {
    const taken = Math.min(this.#left, chunk.length - offset);
    const piece = chunk.subarray(offset, offset + taken);
    this.#left -= taken;
    if (this.#control) this.#control.filled += piece.copy(this.#control.payload, this.#control.filled);
    if (this.#left === 0) this.#endFrame(piece);
    else if (!this.#control) this.#handler.onData(this.#streamId, piece, false);
    return taken;
  }

  #endFrame(lastPiece: Buffer): void {
    const control = this.#control;
    this.#control = undefined;
    this.#headerFilled = 0;
    if (control) this.#handler.onControl(control.type, this.#flags, control.payload);
    else this.#handler.onData(this.#streamId, lastPiece, (this.#flags & flagFin) !== 0);
  }
}

function controlFrame(type: number, payload: Buffer): Buffer {
  const frame = Buffer.alloc(headerBytes + payload.length);
  frame.writeUInt16BE(0x8000 | spdyVersion, 0);
  frame.writeUInt16BE(type, 2);
  frame.writeUIntBE(payload.length, 5, 3);
  payload.copy(frame, headerBytes);
  return frame;
}

function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, index * 4);
  return bytes;
}

/** One buffer for header and bytes: over a WebSocket each write is a message of its own. */
export function dataFrame(streamId: number, bytes: Uint8Array, fin = false): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + bytes.length);
  frame.writeUInt32BE(streamId & idMask, 0);
  frame[4] = fin ? flagFin : 0;
  frame.writeUIntBE(bytes.length, 5, 3);
  frame.set(bytes, headerBytes);
  return frame;
}

export function synReply(streamId: number, headerBlock: Buffer): Buffer {
  return controlFrame(controlType.synReply, Buffer.concat([words(streamId), headerBlock]));
}

export function synStream(streamId: number, headerBlock: Buffer): Buffer {
  // No associated stream, priority and slot 0.
  return controlFrame(
    controlType.synStream,
    Buffer.concat([words(streamId, 0), Buffer.alloc(2), headerBlock]),
  );
}

export function rstStream(streamId: number, status: number): Buffer {
  return controlFrame(controlType.rstStream, words(streamId, status));
}

export function ping(id: number): Buffer {
  return controlFrame(controlType.ping, words(id));
}

export function goAway(lastStreamId: number): Buffer {
  return controlFrame(controlType.goAway, words(lastStreamId, 0));
}

export interface SynStream {
  readonly streamId: number;
  readonly fin: boolean;
  readonly headerBlock: Buffer;
}

export function readSynStream(flags: number, payload: Buffer): SynStream {
  if (payload.length < 10) throw new Fault("badRequest", "truncated SYN_STREAM");
  return {
    streamId: payload.readUInt32BE(0) & idMask,
    fin: (flags & flagFin) !== 0,
    headerBlock: payload.subarray(10),
  };
}

/** The first 32-bit number of a payload: stream id of RST_STREAM and HEADERS, id of PING. */
export function readWord(payload: Buffer): number {
  if (payload.length < 4) throw new Fault("badRequest", "truncated SPDY control frame");
  return payload.readUInt32BE(0);
}

export function readStreamId(payload: Buffer): number {
  return readWord(payload) & idMask;
}

/** Header block of a HEADERS frame. It must be decoded even when unwanted: the blocks form one zlib stream. */
export function headersBlock(payload: Buffer): Buffer {
  return payload.subarray(4);
}
