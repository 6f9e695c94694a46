/**
 * From the network into a file: receiving goes on while what came is hashed and written by another thread, and a slow
 * disk slows the sender down instead of filling the memory. A body comes by its stream or, where that is offered,
 * directly into memory that the thread shares; its first bytes, which were here before anybody asked, by the stream.
 */
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault } from "@cocoon/core";
import { directOfferOf, type DirectOffer, type Landing } from "../http/direct-receipt.ts";
import { ociFault } from "../oci-fault.ts";
import type { LandingRoom, LandingRooms } from "./landing-room.ts";
import type { ThreadedWriter } from "./upload-threads.ts";

/** Handed over at once: every walk to another thread and back costs something, and what is in its cache costs less. */
const batchBytes = 512 * 1024;
/** What lands directly is handed over sooner: its memory is needed for what comes next. */
const landedBatchBytes = 256 * 1024;
const pauseAboveBytes = 2 * 1024 * 1024;
const resumeBelowBytes = 1024 * 1024;
/** So much at a time is sent on to the disk while more comes; else everybody waits for it at the end. */
const flushBytes = 8 * 1024 * 1024;

export interface AppendTarget {
  readonly writer: ThreadedWriter;
  readonly file: FileHandle;
  /** Where the first byte goes. */
  readonly position: number;
  readonly maxBytes: number;
  readonly rooms: LandingRooms;
  /** Whenever something came. */
  readonly onBytes?: () => void;
}

interface Direct extends DirectOffer {
  readonly room: LandingRoom;
}

export interface Appended {
  /** How much is in the file now, counted from the position; also after a failure. */
  readonly writtenBytes: number;
  /** Why it is not the whole body, if it is not. */
  readonly failure: Error | undefined;
}

/** Never rejects: what arrived before a failure stays, and the sender may go on from there. */
export function appendBody(body: Readable, target: AppendTarget): Promise<Appended> {
  return new Promise((resolve) => {
    new Append(body, target, resolve).start();
  });
}

class Append implements Landing {
  readonly #body: Readable;
  readonly #target: AppendTarget;
  readonly #done: (result: Appended) => void;
  #direct: Direct | undefined;
  /** Nothing can come to the room any more. */
  #hasLeftRoom = false;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  /** On their way to the file. */
  #leavingBytes = 0;
  #sentBytes = 0;
  #receivedBytes = 0;
  #writtenBytes = 0;
  #unflushedBytes = 0;
  #flushing = false;
  #paused = false;
  #ended = false;
  #settled = false;
  #failure: Error | undefined;

  constructor(body: Readable, target: AppendTarget, done: (result: Appended) => void) {
    this.#body = body;
    this.#target = target;
    this.#done = done;
  }

  start(): void {
    this.#body.on("end", this.#onEnd);
    this.#body.on("error", this.#onGone);
    this.#body.on("close", this.#onGone);
    const direct = tryDirect(this.#body, this.#target.rooms);
    this.#direct = direct;
    if (this.#body.destroyed) this.#onGone();
    else if (direct) setImmediate(() => this.#receiveDirectly(direct));
    else this.#body.on("data", this.#onData);
  }

  /** What the stream has already comes first: it is told before the network is looked at again. */
  #receiveDirectly({ receipt }: Direct): void {
    if (this.#settled) return;
    this.#body.on("data", this.#onData);
    receipt.take(this);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#receive(chunk);
    if (this.#isFull) this.#pause();
  };

  place(): Uint8Array | undefined {
    return this.#isOver ? undefined : this.#direct?.room.place(this.#expectedBytes);
  }

  landed(bytes: number): boolean {
    const piece = this.#isOver ? undefined : this.#direct?.room.filled(bytes);
    return piece ? this.#land(piece) : true;
  }

  strayed(bytes: Buffer): boolean {
    if (this.#isOver) return true;
    return this.#land(bytes.subarray(0, this.#expectedBytes)); // what follows the body belongs to nobody
  }

  /** Whether more may come. */
  #land(piece: Uint8Array): boolean {
    this.#ended = this.#expectedBytes === piece.length;
    if (this.#ended) {
      this.#hasLeftRoom = true;
      this.#direct?.receipt.leave();
    }
    this.#receive(piece);
    this.#paused ||= this.#isFull;
    return !this.#paused;
  }

  #receive(piece: Uint8Array): void {
    this.#target.onBytes?.();
    this.#receivedBytes += piece.length;
    if (this.#receivedBytes > this.#target.maxBytes) {
      this.#fail(
        ociFault("SIZE_INVALID", "the blob is larger than this registry accepts", { as: "tooLarge" }),
      );
      return;
    }
    this.#queue.push(piece);
    this.#queuedBytes += piece.length;
    this.#pump();
  }

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#pump();
  };

  readonly #onGone = (): void => {
    if (!this.#ended)
      this.#failure ??= new Fault("badRequest", "the client went away before the end of the body");
    this.#pump();
  };

  /** What comes now is not part of the body, or of no use: its memory may be somebody else's already. */
  get #isOver(): boolean {
    return this.#ended || this.#failure !== undefined;
  }

  /** Of a body that lands directly. */
  get #expectedBytes(): number {
    return (this.#direct?.bodyBytes ?? 0) - this.#receivedBytes;
  }

  get #heldBytes(): number {
    return this.#queuedBytes + this.#leavingBytes;
  }

  get #isFull(): boolean {
    return this.#heldBytes > pauseAboveBytes || this.#direct?.room.hasSpare === false;
  }

  /** A room has few places, each of them worth a walk to the network; else it is better not to stop and go all the time. */
  get #hasRoomAgain(): boolean {
    return this.#direct ? !this.#isFull : this.#heldBytes < resumeBelowBytes;
  }

  #pause(): void {
    this.#paused = true;
    this.#body.pause();
    this.#direct?.receipt.pause();
  }

  #resume(): void {
    this.#paused = false;
    this.#body.resume();
    this.#direct?.receipt.resume();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#pump();
  }

  #pump(): void {
    if (this.#settled) return;
    const last = this.#isOver;
    const enough = this.#direct ? landedBatchBytes : batchBytes;
    if (this.#queuedBytes >= enough || (last && this.#queuedBytes > 0)) this.#send();
    if (last && this.#heldBytes === 0 && !this.#flushing) this.#settle();
  }

  #send(): void {
    const { writer, file, position } = this.#target;
    const pieces = this.#queue;
    const bytes = this.#queuedBytes;
    const slot = this.#direct?.room.seal();
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#leavingBytes += bytes;
    const written = writer.write(file.fd, { position: position + this.#sentBytes, pieces });
    this.#sentBytes += bytes;
    written.then(
      ({ writtenBytes, failure }) => {
        if (slot) this.#direct?.room.free(slot);
        this.#onWritten(bytes, writtenBytes, failure);
      },
      (error: unknown) =>
        this.#onWritten(bytes, 0, error instanceof Error ? error : new Error(String(error))),
    );
  }

  #onWritten(bytes: number, writtenBytes: number, failure: Error | undefined): void {
    this.#leavingBytes -= bytes;
    this.#writtenBytes += writtenBytes;
    this.#unflushedBytes += writtenBytes;
    if (this.#unflushedBytes >= flushBytes && !this.#flushing) this.#flush();
    if (failure) {
      this.#queue = [];
      this.#queuedBytes = 0;
      this.#failure = failure; // counts more than what the client did: not all that was hashed is in the file
    }
    if (this.#paused && this.#hasRoomAgain) this.#resume();
    this.#pump();
  }

  #flush(): void {
    this.#flushing = true;
    this.#unflushedBytes = 0;
    const flushed = (failure?: Error) => {
      this.#flushing = false;
      // A disk tells of what it lost once, and not again at the end.
      if (failure) this.#failure = failure;
      this.#pump();
    };
    this.#target.file.datasync().then(() => flushed(), flushed);
  }

  #settle(): void {
    this.#settled = true;
    this.#body.off("data", this.#onData);
    this.#body.off("end", this.#onEnd);
    this.#body.off("close", this.#onGone);
    this.#leaveRoom();
    this.#done({ writtenBytes: this.#writtenBytes, failure: this.#failure });
  }

  #leaveRoom(): void {
    if (!this.#direct) return;
    this.#direct.receipt.leave();
    this.#target.rooms.giveBack(this.#direct.room, { isFree: this.#hasLeftRoom });
  }
}

/** There may be no offer, or no room. */
function tryDirect(body: Readable, rooms: LandingRooms): Direct | undefined {
  const offer = directOfferOf(body);
  const room = offer && rooms.tryTake();
  return room && { ...offer, room };
}
