/**
 * The language between the gateway and `cocoon-guest serve` in a guest: one TCP connection is one request.
 *
 *   gateway → guest   one line of flat JSON: token, op, and what the op needs; then, for ops with a body, frames D … Z
 *   guest → gateway   frames: J (JSON), D (file content), O (stdout or terminal), E (stderr), and at the end Z or X
 *
 * A frame is its type (1 byte), its length (4 bytes, big endian) and its payload, at most 32 KiB (64 KiB of a file that is read). X carries `code` (a Connect
 * code) and `message`. A connection that ends without Z or X was cut.
 *
 *   op                          answer
 *   ping                        Z
 *   start argv env cwd user     J pid tty, O and E, J code signal, Z. The process goes on when the connection ends; `timeoutMs`
 *     tty rows columns stdin    kills it.
 *     tag timeoutMs
 *   processes                   J for each: pid argv env cwd tag; Z
 *   process-connect pid|tag     as start, from now on; up to 30 s after the end
 *   process-input pid tty       body; Z
 *   process-close-input pid     Z
 *   process-resize pid          Z
 *   process-signal pid signal   Z
 *   stat, mkdir, move           J entry, Z
 *   list path depth             J entry for each, Z
 *   remove path                 Z
 *   read path                   J entry, D …, Z
 *   write path user metadata    body; J entry, Z
 *   watch path recursive        J started, then J event changed [entry] for each change
 *   create-watcher, watcher-get, watcher-remove     J watcher; J event …; Z
 *   stats since                 J for each sample since then, J of now, Z
 */
import { Fault } from "@cocoon/core";

export const guestPort = 49_983;
const maxFrameBytes = 32 * 1024;
const headerBytes = 5;

export type FrameType = "J" | "D" | "O" | "E" | "X" | "Z";

export interface Frame {
  readonly type: FrameType;
  readonly payload: Buffer;
}

export interface GuestRequest {
  readonly op: string;
  readonly [key: string]: string | number | boolean | readonly string[] | undefined;
}

/** What the guest answered instead of doing it. `code` is a Connect code. */
export class GuestError extends Error {
  override readonly name = "GuestError";
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const types: ReadonlySet<string> = new Set(["J", "D", "O", "E", "X", "Z"]);

/** Frames as they come. Ends when the connection does; throws on what is no frame. */
export async function* readFrames(source: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let held: Buffer = Buffer.alloc(0);
  for await (const piece of source) {
    held = held.length === 0 ? piece : Buffer.concat([held, piece]);
    while (held.length >= headerBytes) {
      const type = String.fromCharCode(held[0] ?? 0);
      const length = held.readUInt32BE(1);
      // Records of processes carry their whole environment in one frame.
      if (!types.has(type) || length > 2 * 1024 * 1024)
        throw new Fault(
          "unavailable",
          `the guest sent a frame of type ${JSON.stringify(type)} and ${length} bytes`,
        );
      if (held.length < headerBytes + length) break;
      yield { type: type as FrameType, payload: held.subarray(headerBytes, headerBytes + length) };
      held = held.subarray(headerBytes + length);
    }
  }
}

export function encodeFrame(type: FrameType, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.length);
  frame.write(type, 0, "latin1");
  frame.writeUInt32BE(payload.length, 1);
  frame.set(payload, headerBytes);
  return frame;
}

/** Cut to the size that the guest takes. */
export function* encodeData(data: Uint8Array): Generator<Buffer> {
  for (let at = 0; at < data.length; at += maxFrameBytes)
    yield encodeFrame("D", data.subarray(at, at + maxFrameBytes));
}

export type GuestRecord = Readonly<Record<string, unknown>>;

export function parseRecord({ payload }: Frame): GuestRecord {
  try {
    const value: unknown = JSON.parse(payload.toString("utf8"));
    if (typeof value === "object" && value !== null) return value as GuestRecord;
  } catch {
    // Below: a guest may send anything.
  }
  throw new Fault("unavailable", "the guest sent a message that is not JSON");
}
