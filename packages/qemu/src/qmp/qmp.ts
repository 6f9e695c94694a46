/**
 * A client of QEMU's control protocol: JSON lines over a Unix socket. Each answer is checked against what its command
 * is known to return. QEMU serves one client per socket: a second one waits unanswered, so
 * every step has a deadline.
 */
import type { Socket } from "node:net";
import { Fault, orAborted, withDeadline, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { connectIn } from "@cocoon/vm/host";

const nothing = z.object({}).loose();

/** What the commands that we use return. */
const results = {
  qmp_capabilities: nothing,
  "query-status": z.object({ status: z.string(), running: z.boolean() }),
  "query-name": z.object({ name: z.string().optional() }),
  "query-block": z.array(z.object({ inserted: z.object({ "node-name": z.string().optional() }).optional() })),
  stop: nothing,
  cont: nothing,
  system_powerdown: nothing,
  system_reset: nothing,
  "xen-save-devices-state": nothing,
  "migrate-set-capabilities": nothing,
  "migrate-set-parameters": nothing,
  "migrate-incoming": nothing,
  migrate: nothing,
  migrate_cancel: nothing,
  transaction: nothing,
  "blockdev-add": nothing,
  "blockdev-del": nothing,
  "blockdev-reopen": nothing,
  "block-stream": nothing,
  "query-jobs": z.array(z.object({ id: z.string(), status: z.string() })),
  "job-finalize": nothing,
  "job-cancel": nothing,
  "query-named-block-nodes": z.array(
    z.object({ "node-name": z.string(), drv: z.string(), file: z.string() }),
  ),
  block_resize: nothing,
  "human-monitor-command": z.string(),
} as const satisfies Readonly<Record<string, z.ZodType>>;

type QmpCommand = keyof typeof results;
type QmpResult<C extends QmpCommand> = z.output<(typeof results)[C]>;

const eventSchema = z.object({ event: z.string(), data: z.record(z.string(), z.unknown()).default({}) });
type QmpEvent = Readonly<z.output<typeof eventSchema>>;

const messageSchema = z.union([
  z.object({ QMP: z.object({}) }),
  z.object({ return: z.unknown(), id: z.int() }),
  z.object({ error: z.object({ class: z.string(), desc: z.string() }), id: z.int() }),
  eventSchema,
]);

export interface QmpOptions extends Abortable {
  /** Directory and name of the socket. */
  readonly directory: string;
  readonly socket: string;
  /** How long to wait for QEMU's greeting. */
  readonly greetingMs?: number;
}

export interface QmpClient extends Disposable {
  /** Resolves, and never rejects, when the connection ends: QEMU is gone or hung up on us. */
  readonly closed: Promise<void>;
  /** Sends one command and waits for its answer. Throws QEMU's error, `unavailable` when it is gone, `timeout`. */
  execute<C extends QmpCommand>(command: C, options: ExecuteOptions): Promise<QmpResult<C>>;
  /** Calls for every event from now on; returns how to stop it. */
  onEvent(listener: (event: QmpEvent) => void): () => void;
}

interface ExecuteOptions extends Abortable {
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly timeoutMs?: number;
}

/** An emulated guest on a loaded host can keep QEMU from its sockets for seconds. */
const defaultTimeoutMs = 30_000;
const maxLineBytes = 16 * 1024 * 1024;

/** Connects and agrees on capabilities. `notFound` when there is no socket, `timeout` when another client is on it. */
export async function connectQmp(options: QmpOptions): Promise<QmpClient> {
  const signal = withDeadline(options.signal, options.greetingMs ?? defaultTimeoutMs);
  return greetedBy(await connectIn(options.directory, options.socket, { signal }), { signal });
}

/** QEMU greets one client at a time: any other client waits here for its turn, or QEMU ends. */
export async function greetedBy(socket: Socket, { signal }: Abortable): Promise<QmpClient> {
  const client = new Client(socket);
  try {
    await client.greeted(signal);
    await client.execute("qmp_capabilities", { signal });
    return client;
  } catch (error) {
    client[Symbol.dispose]();
    throw error;
  }
}

interface Waiter {
  readonly command: QmpCommand;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

class Client implements QmpClient {
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #listeners = new Set<(event: QmpEvent) => void>();
  readonly #waiters = new Map<number, Waiter>();
  readonly #greeting = Promise.withResolvers<void>();
  #lastId = 0;
  #rest = "";

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#greeting.promise.catch(() => undefined); // awaited once
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#failAll(new Fault("unavailable", "QEMU closed its control connection"));
        resolve();
      });
    });
    socket.setEncoding("utf8");
    socket.on("error", () => undefined); // "close" follows
    socket.on("data", (text: string) => this.#receive(text));
  }

  greeted(signal: AbortSignal): Promise<void> {
    const late = "QEMU sent no greeting: another client may be connected";
    return orAborted(this.#greeting.promise, { signal, late });
  }

  async execute<C extends QmpCommand>(command: C, options: ExecuteOptions): Promise<QmpResult<C>> {
    const signal = withDeadline(options.signal, options.timeoutMs ?? defaultTimeoutMs);
    if (this.#socket.destroyed) throw new Fault("unavailable", "QEMU closed its control connection");
    const id = (this.#lastId += 1);
    const answer = new Promise<unknown>((resolve, reject) => {
      this.#waiters.set(id, { command, resolve, reject });
    });
    this.#socket.write(`${JSON.stringify({ execute: command, arguments: options.arguments ?? {}, id })}\n`);
    try {
      const value = await orAborted(answer, { signal, late: `QEMU did not answer ${command} in time` });
      return results[command].parse(value) as QmpResult<C>;
    } finally {
      this.#waiters.delete(id);
    }
  }

  onEvent(listener: (event: QmpEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #receive(text: string): void {
    this.#rest += text;
    if (this.#rest.length > maxLineBytes) return void this.#socket.destroy();
    const lines = this.#rest.split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#take(line);
  }

  #take(line: string): void {
    const message = readMessage(line);
    if (!message) return;
    if ("QMP" in message) return this.#greeting.resolve();
    if ("event" in message) return this.#listeners.forEach((listener) => listener(message));
    const waiter = this.#waiters.get(message.id);
    if ("error" in message) waiter?.reject(asFault(waiter.command, message.error));
    else waiter?.resolve(message.return);
  }

  #failAll(error: Error): void {
    this.#greeting.reject(error);
    for (const waiter of this.#waiters.values()) waiter.reject(error);
  }
}

function readMessage(line: string): z.output<typeof messageSchema> | undefined {
  if (line.trim() === "") return undefined;
  const parsed = messageSchema.safeParse(JSON.parse(line));
  return parsed.success ? parsed.data : undefined; // a kind of message that later versions may add
}

function asFault(command: string, error: { readonly class: string; readonly desc: string }): Fault {
  const text = `QEMU refused ${command}: ${error.desc}`;
  if (/no space left/i.test(error.desc)) return new Fault("outOfSpace", text);
  if (error.class === "CommandNotFound") return new Fault("notSupported", text);
  return new Fault("internal", text);
}
