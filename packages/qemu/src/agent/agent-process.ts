/**
 * One program in a guest, as streams. Each stream has its own credit, so that a reader who is slow stops his own
 * program and no other, and nothing is kept beyond the credit.
 */
import { Readable, Writable } from "node:stream";
import {
  initialCreditBytes,
  maxDataBytes,
  type GuestNotice,
  type HostNotice,
  type OutputStream,
} from "./agent-protocol.ts";
import type { ExecRequest, GuestExit, GuestProcess, TtySize } from "@cocoon/vm";

export interface ProcessChannel {
  readonly number: number;
  readonly send: (message: HostNotice) => void;
}

export class AgentProcess implements GuestProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<GuestExit>;
  readonly #channel: ProcessChannel;
  readonly #exit = Promise.withResolvers<GuestExit>();
  readonly #input: InputStream;
  readonly #outputs: Readonly<Record<OutputStream, OutputReader>>;
  #ended = false;

  constructor(request: ExecRequest, channel: ProcessChannel) {
    this.#channel = channel;
    this.exited = this.#exit.promise;
    this.exited.catch(() => undefined); // a caller that only reads the output need not listen
    this.#input = new InputStream(channel);
    this.stdin = this.#input;
    if (!request.stdin) this.#input.close();
    this.#outputs = {
      stdout: new OutputReader("stdout", channel),
      stderr: new OutputReader("stderr", channel),
    };
    this.stdout = this.#outputs.stdout;
    this.stderr = this.#outputs.stderr;
    if (request.tty) this.#outputs.stderr.push(null);
  }

  resize({ rows, columns }: TtySize): void {
    this.#channel.send({ t: "resize", x: this.#channel.number, rows, columns });
  }

  signal(name: "TERM" | "INT" | "HUP" | "KILL" | "QUIT"): void {
    this.#channel.send({ t: "signal", x: this.#channel.number, name });
  }

  /** A message of the guest about this program. */
  take(notice: GuestNotice): void {
    switch (notice.t) {
      case "out":
        this.#outputs[notice.stream].accept(Buffer.from(notice.data, "base64"));
        break;
      case "end":
        this.#outputs[notice.stream].finish();
        break;
      case "credit":
        this.#input.grant(notice.bytes);
        break;
      case "exit":
        this.#finish();
        this.#exit.resolve(
          notice.signal > 0 ? { code: 128 + notice.signal, signal: notice.signal } : { code: notice.code },
        );
        break;
    }
  }

  /** The channel or the guest is lost. */
  fail(error: Error): void {
    this.#finish();
    this.#exit.reject(error);
  }

  /** Kills the program if it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) this.signal("KILL");
    await this.exited.catch(() => undefined);
  }

  #finish(): void {
    this.#ended = true;
    this.#outputs.stdout.finish();
    this.#outputs.stderr.finish();
    this.#input.close();
  }
}

class OutputReader extends Readable {
  readonly #stream: OutputStream;
  readonly #channel: ProcessChannel;
  /** Passed on to the reader's buffer but not yet granted again. */
  #owed = 0;
  #finished = false;

  constructor(stream: OutputStream, channel: ProcessChannel) {
    super({ highWaterMark: maxDataBytes });
    this.#stream = stream;
    this.#channel = channel;
  }

  accept(data: Buffer): void {
    if (this.#finished || this.destroyed) return;
    this.#owed += data.length;
    if (this.push(data)) this.#grant();
  }

  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    if (!this.readableEnded) this.push(null);
  }

  override _read(): void {
    this.#grant();
  }

  /** A reader that went away must not stop the program: what it does not want is granted and dropped. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#finished) this.#sendCredit(2 ** 40);
    done(error);
  }

  #grant(): void {
    if (this.#owed === 0 || this.#finished) return;
    this.#sendCredit(this.#owed);
    this.#owed = 0;
  }

  #sendCredit(bytes: number): void {
    this.#channel.send({ t: "credit", x: this.#channel.number, stream: this.#stream, bytes });
  }
}

class InputStream extends Writable {
  readonly #channel: ProcessChannel;
  #credit = initialCreditBytes;
  #pending: { data: Buffer; readonly done: (error?: Error | null) => void } | undefined;
  #closed = false;

  constructor(channel: ProcessChannel) {
    super({ highWaterMark: maxDataBytes });
    this.#channel = channel;
    this.on("error", () => undefined); // writing to a program that ended is not a fault of the caller
  }

  grant(bytes: number): void {
    this.#credit += bytes;
    this.#flush();
  }

  /** The program has ended: what is still to be written is dropped. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.done();
    this.end();
  }

  // oxlint-disable-next-line max-params -- the stream interface of Node
  override _write(data: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#closed) return done();
    this.#pending = { data, done };
    this.#flush();
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#closed) this.#channel.send({ t: "eof", x: this.#channel.number });
    done();
  }

  #flush(): void {
    const pending = this.#pending;
    if (!pending) return;
    while (pending.data.length > 0 && this.#credit > 0) {
      const piece = pending.data.subarray(0, Math.min(maxDataBytes, this.#credit));
      this.#credit -= piece.length;
      pending.data = pending.data.subarray(piece.length);
      this.#channel.send({ t: "stdin", x: this.#channel.number, data: piece.toString("base64") });
    }
    if (pending.data.length > 0) return;
    this.#pending = undefined;
    pending.done();
  }
}
