/**
 * This process's conversations with guests: at most one per VM, opened when first needed, shared by all that want
 * something of the guest, closed when nobody does. Another process that talks to the same guest uses another port.
 */
import { join } from "node:path";
import { Fault, isFault, withDeadline, type Abortable } from "@cocoon/core";
import { agentPortCount } from "../agent-protocol.ts";
import type { ExecRequest, GuestProcess } from "../runtime.ts";
import { acquireLock, tryAcquireLock, type HeldLock } from "../store/file-lock.ts";
import { vmFile } from "../store/layout.ts";
import { connectIn } from "../qemu/unix-socket.ts";
import { AgentSession, type Pong } from "./agent-session.ts";

interface Opened {
  readonly session: AgentSession;
  readonly pong: Pong;
}

interface Link {
  readonly opened: Promise<Opened>;
  readonly abort: AbortController;
  users: number;
  idle: NodeJS.Timeout | undefined;
}

/** How long a conversation nobody uses is kept: opening one costs several round trips. */
const idleMs = 1_000;

export class AgentLinks implements AsyncDisposable {
  readonly #links = new Map<string, Link>();
  readonly #silenceMs: number;

  /** After `silenceMs` without an answer another port is tried; longer each time, for a guest may be only slow. */
  constructor({ silenceMs = 5_000 }: { readonly silenceMs?: number } = {}) {
    this.#silenceMs = silenceMs;
  }

  /** Lets `work` talk to the agent of the VM in that directory; waits until it answers, as long as the signal says. */
  async use<T>(
    directory: string,
    work: (session: AgentSession, pong: Pong) => Promise<T>,
    { signal }: Abortable,
  ): Promise<T> {
    const link = this.#take(directory);
    try {
      const { session, pong } = await waitFor(link.opened, signal);
      return await work(session, pong);
    } finally {
      this.#release(directory, link);
    }
  }

  /** Starts a program; the conversation stays open until it has ended. */
  async exec(directory: string, request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    const link = this.#take(directory);
    try {
      const { session } = await waitFor(link.opened, options.signal);
      const program = await session.exec(request, options);
      void program.exited.then(
        () => this.#release(directory, link),
        () => this.#release(directory, link),
      );
      return program;
    } catch (error) {
      this.#release(directory, link);
      throw error;
    }
  }

  /** Hangs up: the guest was started anew. */
  async forget(directory: string): Promise<void> {
    const link = this.#links.get(directory);
    this.#links.delete(directory);
    if (link) await close(link);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const links = [...this.#links];
    this.#links.clear();
    await Promise.all(links.map(([, link]) => close(link)));
  }

  #take(directory: string): Link {
    const known = this.#links.get(directory);
    if (known) {
      known.users += 1;
      clearTimeout(known.idle);
      return known;
    }
    const abort = new AbortController();
    const link: Link = {
      opened: openSession(directory, this.#silenceMs, abort.signal),
      abort,
      users: 1,
      idle: undefined,
    };
    this.#links.set(directory, link);
    // A channel that breaks, or never comes about, is not offered to the next one.
    const forget = () => {
      if (this.#links.get(directory) === link) this.#links.delete(directory);
    };
    link.opened.then(({ session }) => void session.closed.then(forget), forget);
    return link;
  }

  #release(directory: string, link: Link): void {
    link.users -= 1;
    if (link.users > 0) return;
    link.idle = setTimeout(() => {
      if (this.#links.get(directory) === link) this.#links.delete(directory);
      void close(link);
    }, idleMs);
    link.idle.unref();
  }
}

async function close(link: Link): Promise<void> {
  clearTimeout(link.idle);
  link.abort.abort(new Error("nobody waits for the guest's agent any more"));
  const opened = await link.opened.catch(() => undefined);
  await opened?.session[Symbol.asyncDispose]();
}

const mostDoublings = 3;

/**
 * Seen about once in 400 kills of a manager in the middle of a save: the guest runs, its port is connected, and nothing
 * comes back on it. So nobody waits on one connection for ever: the next port is tried, on a connection of its own.
 */
async function openSession(directory: string, silenceMs: number, signal: AbortSignal): Promise<Opened> {
  for (let tries = 0; ; tries += 1) {
    const patienceMs = silenceMs * 2 ** Math.min(tries, mostDoublings);
    try {
      return await openOnPort(directory, { signal, first: tries % agentPortCount, patienceMs });
    } catch (error) {
      if (signal.aborted || !isFault(error, "timeout")) throw error;
    }
  }
}

interface Attempt extends Abortable {
  readonly first: number;
  readonly patienceMs: number;
}

async function openOnPort(directory: string, { signal, first, patienceMs }: Attempt): Promise<Opened> {
  const { lock, port } = await takePort(directory, first, signal);
  try {
    const channel = await connectIn(directory, vmFile.agentSocket(port), { signal });
    const opened = await AgentSession.open(channel, { signal: withDeadline(signal, patienceMs) });
    void opened.session.closed.then(() => lock[Symbol.dispose]());
    return opened;
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

/** A port that no other process talks on; waits for the first one when all are taken. */
async function takePort(
  directory: string,
  first: number,
  signal: AbortSignal,
): Promise<{ lock: HeldLock; port: number }> {
  for (let offset = 0; offset < agentPortCount; offset += 1) {
    const port = (first + offset) % agentPortCount;
    const lock = tryAcquireLock(join(directory, vmFile.agentLock(port)));
    if (lock) return { lock, port };
  }
  return { lock: await acquireLock(join(directory, vmFile.agentLock(first)), { signal }), port: first };
}

async function waitFor<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const given = Promise.withResolvers<never>();
  const giveUp = () => given.reject(reasonOf(signal));
  if (signal.aborted) giveUp();
  else signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([promise, given.promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

function reasonOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  if (reason instanceof Error && reason.name !== "TimeoutError") return reason;
  return new Fault("timeout", "the guest's agent did not answer in time");
}
