/**
 * This process's conversations with guests: at most one per VM, opened when first needed, shared by all that want
 * something of the guest, closed when nothing does. Another process that talks to the same guest uses another port.
 */
import { join } from "node:path";
import {
  isFault,
  lockFile,
  orAborted,
  tryLockFile,
  withDeadline,
  type Abortable,
  type FileLock,
} from "@cocoon/core";
import { agentPortCount } from "./agent-protocol.ts";
import type { ExecRequest, GuestProcess } from "@cocoon/vm";
import { vmFile } from "../store/layout.ts";
import { connectIn } from "@cocoon/vm/host";
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

/** How long an unused conversation is kept: opening one costs several round trips. */
const idleMs = 1_000;
const late = "the guest's agent did not answer in time";

export class AgentLinks implements AsyncDisposable {
  readonly #links = new Map<string, Link>();
  readonly #silenceMs: number;

  /** After `silenceMs` without an answer another port is tried; longer each time, for a guest may be only slow. */
  constructor({ silenceMs = 5_000 }: { readonly silenceMs?: number } = {}) {
    this.#silenceMs = silenceMs;
  }

  /** Lets `work` talk to the agent of the VM in that directory; waits until it answers or the signal aborts. */
  async use<T>(
    directory: string,
    work: (session: AgentSession, pong: Pong) => Promise<T>,
    { signal }: Abortable,
  ): Promise<T> {
    const link = this.#take(directory);
    try {
      const { session, pong } = await orAborted(link.opened, { signal, late });
      return await work(session, pong);
    } finally {
      this.#release(directory, link);
    }
  }

  /** Starts a program; the conversation stays open until it has ended. */
  async exec(directory: string, request: ExecRequest, options: Abortable): Promise<GuestProcess> {
    const link = this.#take(directory);
    try {
      const { session } = await orAborted(link.opened, { signal: options.signal, late });
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
  link.abort.abort(new Error("the guest's agent is no longer waited for"));
  const opened = await link.opened.catch(() => undefined);
  await opened?.session[Symbol.asyncDispose]();
}

const mostDoublings = 3;

/**
 * Seen about once in 400 kills of a manager in the middle of a save: the guest runs, its port is connected, and nothing
 * comes back on it. So no request waits on one connection for ever: the next port is tried, on a connection of its own.
 */
async function openSession(directory: string, silenceMs: number, signal: AbortSignal): Promise<Opened> {
  for (let tries = 0; ; tries += 1) {
    const timeoutMs = silenceMs * 2 ** Math.min(tries, mostDoublings);
    try {
      return await openOnPort(directory, { signal, first: tries % agentPortCount, timeoutMs });
    } catch (error) {
      if (signal.aborted || !isFault(error, "timeout")) throw error;
    }
  }
}

interface Attempt extends Abortable {
  readonly first: number;
  readonly timeoutMs: number;
}

async function openOnPort(directory: string, { signal, first, timeoutMs }: Attempt): Promise<Opened> {
  const { lock, port } = await takePort(directory, first, signal);
  try {
    const channel = await connectIn(directory, vmFile.agentSocket(port), { signal });
    const opened = await AgentSession.open(channel, { signal: withDeadline(signal, timeoutMs) });
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
): Promise<{ lock: FileLock; port: number }> {
  for (let offset = 0; offset < agentPortCount; offset += 1) {
    const port = (first + offset) % agentPortCount;
    const lock = tryLockFile(join(directory, vmFile.agentLock(port)));
    if (lock) return { lock, port };
  }
  return { lock: await lockFile(join(directory, vmFile.agentLock(first)), { signal }), port: first };
}
