/**
 * The host's side of one conversation with a guest's agent (`agent-protocol.ts`) over a byte channel. Everything is
 * repeated until it is answered: a guest that was just restored, or whose agent is only starting, loses what is sent
 * to it.
 */
import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { Fault, orAborted, withDeadline, type Abortable, type FaultCode } from "@cocoon/core";
import {
  encodeHostMessage,
  maxLineBytes,
  tryReadGuestMessage,
  type GuestAnswer,
  type GuestMessage,
  type GuestNotice,
  type HostMessage,
  type HostRequest,
} from "./agent-protocol.ts";
import type { ExecRequest, GuestProcess } from "@cocoon/vm";
import { AgentProcess } from "./agent-process.ts";

export type Pong = Extract<GuestMessage, { readonly t: "pong" }>;

/** A request before it has its number. */
type Unnumbered<T> = T extends { readonly id: number } ? Omit<T, "id"> : never;
export type AgentRequest = Unnumbered<HostRequest>;

interface Waiter {
  readonly resolve: (answer: GuestAnswer) => void;
  readonly reject: (error: Error) => void;
}

const firstRepeatMs = 20;
const longestRepeatMs = 500;
const requestTimeoutMs = 20_000;
/** While programs run, the agent is pinged this often, to see whether it is still the one that started them. */
const keepAliveMs = 5_000;

export class AgentSession implements AsyncDisposable {
  /** Resolves, and never rejects, when the channel is gone. */
  readonly closed: Promise<void>;
  readonly #session = randomBytes(8).toString("hex");
  readonly #channel: Duplex;
  readonly #waiters = new Map<number, Waiter>();
  readonly #programs = new Map<number, AgentProcess>();
  #lastNumber = 0;
  #rest: Buffer[] = [];
  #restBytes = 0;
  #boot = "";
  #keepAlive: NodeJS.Timeout | undefined;

  private constructor(channel: Duplex) {
    this.#channel = channel;
    this.closed = new Promise((resolve) => {
      channel.once("close", () => {
        this.#failAll(new Fault("unavailable", "the channel to the guest's agent was closed"));
        resolve();
      });
    });
    channel.on("error", () => undefined); // "close" follows
    channel.on("data", (piece: Buffer) => this.#receive(piece));
    channel.write("\n"); // ends a line that an earlier client left unfinished
  }

  /** Waits until the agent answers; how long is the signal's business. The channel is ours from now on. */
  static async open(channel: Duplex, { signal }: Abortable): Promise<{ session: AgentSession; pong: Pong }> {
    const session = new AgentSession(channel);
    try {
      const pong = await session.#ask({ t: "ping" }, signal);
      if (pong.t !== "pong") throw new Fault("internal", `the guest's agent answered a ping with ${pong.t}`);
      return { session, pong };
    } catch (error) {
      channel.destroy();
      throw error;
    }
  }

  /** Asks, repeating, and returns the answer. `error` answers are thrown. */
  async request(
    message: AgentRequest,
    options: Abortable & { readonly timeoutMs?: number },
  ): Promise<GuestAnswer> {
    const answer = await this.#ask(
      message,
      withDeadline(options.signal, options.timeoutMs ?? requestTimeoutMs),
    );
    if (answer.t === "error")
      throw new Fault(faultCodes[answer.code], `guest: ${answer.message || answer.code}`);
    return answer;
  }

  /** Starts a program in the guest. The session must stay open as long as the program is of interest. */
  async exec(request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    const number = this.#nextNumber();
    const program = new AgentProcess(request, { number, send: (message) => this.#send(message) });
    this.#programs.set(number, program); // output may come right behind the answer
    try {
      const answer = await this.#askNumbered(
        { id: number, ...execMessage(request) },
        withDeadline(options.signal, requestTimeoutMs),
      );
      if (answer.t === "error")
        throw new Fault(faultCodes[answer.code], answer.message || `exec: ${answer.code}`);
    } catch (error) {
      this.#programs.delete(number);
      throw error;
    }
    this.#keepAlive ??= setInterval(() => this.#checkAgent(), keepAliveMs).unref();
    return program;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#keepAlive);
    this.#channel.destroy();
    await this.closed;
  }

  #ask(message: AgentRequest, signal: AbortSignal): Promise<GuestAnswer> {
    return this.#askNumbered({ ...message, id: this.#nextNumber() }, signal);
  }

  async #askNumbered(message: HostRequest, signal: AbortSignal): Promise<GuestAnswer> {
    const answer = Promise.withResolvers<GuestAnswer>();
    this.#waiters.set(message.id, answer);
    let timer: NodeJS.Timeout | undefined;
    let repeated = false;
    const repeat = (afterMs: number) => {
      // An agent that was started again knows this session only after a ping.
      if (repeated && message.t !== "ping") this.#send({ t: "ping", id: this.#nextNumber() });
      repeated = true;
      this.#send(message);
      timer = setTimeout(() => repeat(Math.min(longestRepeatMs, afterMs * 1.5)), afterMs);
    };
    try {
      if (this.#channel.destroyed)
        throw new Fault("unavailable", "the channel to the guest's agent was closed");
      if (!signal.aborted) repeat(message.t === "ping" ? firstRepeatMs : longestRepeatMs);
      const late = `the guest's agent did not answer ${message.t} in time`;
      return await orAborted(answer.promise, { signal, late });
    } finally {
      clearTimeout(timer);
      this.#waiters.delete(message.id);
    }
  }

  #nextNumber(): number {
    this.#lastNumber += 1;
    return this.#lastNumber;
  }

  #send(message: HostMessage): void {
    if (this.#channel.writable) this.#channel.write(encodeHostMessage(this.#session, message));
  }

  #receive(piece: Buffer): void {
    let rest = piece;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#rest, rest.subarray(0, end)]).toString("utf8");
      this.#rest = [];
      this.#restBytes = 0;
      rest = rest.subarray(end + 1);
      if (line.length <= maxLineBytes) this.#take(tryReadGuestMessage(this.#session, line));
    }
    if (rest.length === 0) return;
    this.#restBytes += rest.length;
    // Of a line that is too long only its end matters.
    if (this.#restBytes > maxLineBytes) this.#rest = [Buffer.alloc(maxLineBytes + 1, 32)];
    else this.#rest.push(rest);
  }

  #take(message: GuestMessage | undefined): void {
    if (!message) return;
    if (message.t === "pong") this.#noticeBoot(message.boot);
    if ("re" in message) this.#waiters.get(message.re)?.resolve(message);
    else this.#takeNotice(message);
  }

  #takeNotice(notice: GuestNotice): void {
    this.#programs.get(notice.x)?.take(notice);
    if (notice.t === "exit") this.#programs.delete(notice.x);
  }

  /** Any answer shows that the agent lives; its boot id is compared as well. */
  #checkAgent(): void {
    if (this.#programs.size > 0) this.#send({ t: "ping", id: this.#nextNumber() });
  }

  /** Another agent than before has not started our programs. */
  #noticeBoot(boot: string): void {
    if (this.#boot !== "" && boot !== this.#boot)
      this.#failPrograms(
        new Fault("unavailable", "the guest or its agent was started again; the program is gone"),
      );
    this.#boot = boot;
  }

  #failPrograms(error: Error): void {
    for (const program of this.#programs.values()) program.fail(error);
    this.#programs.clear();
  }

  #failAll(error: Error): void {
    for (const waiter of this.#waiters.values()) waiter.reject(error);
    this.#failPrograms(error);
  }
}

function execMessage(request: ExecRequest): Unnumbered<Extract<HostRequest, { readonly t: "exec" }>> {
  return {
    t: "exec",
    argv: request.argv,
    env: Object.entries(request.env ?? {}).map(([key, value]) => `${key}=${value}`),
    cwd: request.cwd ?? "",
    user: request.user ?? "",
    tty: request.tty !== undefined,
    rows: request.tty?.rows ?? 0,
    columns: request.tty?.columns ?? 0,
    stdin: request.stdin ?? false,
  };
}

const faultCodes: Readonly<Record<Extract<GuestAnswer, { readonly t: "error" }>["code"], FaultCode>> = {
  notFound: "notFound",
  denied: "forbidden",
  invalid: "invalid",
  busy: "tooManyRequests",
  failed: "internal",
};
