/** Requests to one guest. Each has a connection of its own, so a slow one holds up no other. */
import type { Duplex } from "node:stream";
import { Fault, isFault, sleep, type Abortable } from "@cocoon/core";
import {
  encodeData,
  encodeFrame,
  GuestError,
  parseRecord,
  readFrames,
  type Frame,
  type GuestRecord,
  type GuestRequest,
} from "./protocol.ts";

/** Ways to a guest that a test may replace. */
export interface GuestAccess {
  /** A connection to the port where the guest serves requests. */
  connect(options: Abortable): Promise<GuestConnection>;
  /** Gives the guest its token and environment, and starts what serves them. Repeatable. */
  prepare(options: Abortable): Promise<void>;
}

interface GuestConnection {
  readonly stream: Duplex;
  /** Gives the way back: `reusable` when the stream ended as it should. */
  readonly release: (reusable: boolean) => void;
}

type Body = AsyncIterable<Uint8Array>;
/** Of a guest that was just prepared; two seconds in all. */
const answerAttempts = 5;
/** What may be sent again when it is not known whether the guest got it. */
const unrepeatable: ReadonlySet<string> = new Set(["start", "process-input", "write", "move"]);

export class Guest {
  readonly #access: GuestAccess;
  readonly #token: string;

  constructor(access: GuestAccess, token: string) {
    this.#access = access;
    this.#token = token;
  }

  prepare(options: Abortable): Promise<void> {
    return this.#access.prepare(options);
  }

  /** Frames until the end of the answer. Throws `GuestError` for what the guest refuses, `unavailable` for a cut connection. */
  async *stream(request: GuestRequest, options: Abortable, body?: Body): AsyncGenerator<Frame> {
    for (let attempt = 0; ; attempt += 1) {
      let received = false;
      try {
        for await (const frame of this.#exchange(request, options, body)) {
          received = true;
          yield frame;
        }
        return;
      } catch (error) {
        if (received || body || attempt > 0 || !isFault(error, "unavailable")) throw error;
        if (!(await this.#revive(request, options))) throw error;
      }
    }
  }

  /** Whether the request may be sent again. A guest that was booted anew serves nothing yet. */
  async #revive({ op }: GuestRequest, options: Abortable): Promise<boolean> {
    try {
      for await (const _frame of this.#exchange({ op: "ping" }, options)) break;
      return !unrepeatable.has(op);
    } catch (error) {
      if (!isFault(error, "unavailable") && !(error instanceof GuestError)) throw error;
      await this.#access.prepare(options);
      await this.#awaitAnswer(options);
      return true;
    }
  }

  /** What was just started serves soon. A guest that does not is told by the request that follows. */
  async #awaitAnswer({ signal }: Abortable): Promise<void> {
    for (let attempt = 1; attempt <= answerAttempts; attempt += 1)
      try {
        for await (const _frame of this.#exchange({ op: "ping" }, { signal })) break;
        return;
      } catch (error) {
        if (!isFault(error, "unavailable")) throw error;
        await sleep(50 * 2 ** attempt, { signal });
      }
  }

  /** The JSON messages of the answer. */
  async call(request: GuestRequest, options: Abortable, body?: Body): Promise<GuestRecord[]> {
    const records: GuestRecord[] = [];
    for await (const frame of this.stream(request, options, body))
      if (frame.type === "J") records.push(parseRecord(frame));
    return records;
  }

  async *#exchange(request: GuestRequest, { signal }: Abortable, body?: Body): AsyncGenerator<Frame> {
    signal.throwIfAborted();
    const { stream, release } = await this.#access.connect({ signal });
    const cut = () => stream.destroy();
    signal.addEventListener("abort", cut, { once: true });
    let complete = false;
    let unsent: Error | undefined;
    try {
      stream.write(`${JSON.stringify({ token: this.#token, ...request })}\n`);
      const sending = body ? sendBody(stream, body) : Promise.resolve();
      sending.catch((error: unknown) => {
        unsent = error instanceof Error ? error : new Error(String(error));
        cut();
      });
      for await (const frame of readFrames(stream)) {
        if (frame.type === "X") throw readError(frame);
        if (frame.type === "Z") {
          complete = true;
          return;
        }
        yield frame;
      }
      await sending;
      throw new Fault("unavailable", "the connection to the guest was cut");
    } catch (error) {
      signal.throwIfAborted();
      // What the client sends is at fault, not the guest.
      if (unsent !== undefined) throw unsent;
      if (error instanceof GuestError || error instanceof Fault) throw error;
      throw new Fault("unavailable", "the connection to the guest was cut", { cause: error });
    } finally {
      signal.removeEventListener("abort", cut);
      stream.destroy();
      release(complete);
    }
  }
}

async function sendBody(stream: Duplex, body: Body): Promise<void> {
  for await (const data of body)
    for (const frame of encodeData(data))
      if (!stream.write(frame) && !stream.destroyed) await waitForRoom(stream);
  stream.write(encodeFrame("Z", new Uint8Array(0)));
}

/** Or until the stream is closed: the next write then fails. */
function waitForRoom(stream: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    stream.on("drain", done).on("close", done);
  });
}

function readError(frame: Frame): GuestError {
  const { code, message } = parseRecord(frame);
  return new GuestError(
    typeof code === "string" ? code : "internal",
    typeof message === "string" ? message : "",
  );
}
