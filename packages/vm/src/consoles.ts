/**
 * The serial console of a VM. QEMU serves one client at a time, so this process holds one connection per VM and lets
 * any number share it.
 */
import type { Socket } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { Fault, lockFile, withDeadline, type Abortable, type FileLock } from "@cocoon/core";
import { connectIn } from "./host/unix-socket.ts";

/** Beside the VM's other sockets. */
const consoleSocket = "console.sock";
const consoleLock = "console.lock";
const takeMs = 3_000;

interface Hub {
  readonly socket: Promise<{ readonly socket: Socket; readonly lock: FileLock }>;
  readonly views: Set<ConsoleView>;
}

export class Consoles implements Disposable {
  readonly #hubs = new Map<string, Hub>();

  /** `conflict` when another process has the console. */
  async open(directory: string, options: Abortable): Promise<Duplex> {
    const hub = this.#hubFor(directory, options);
    const view = new ConsoleView((closed) => this.#detach(directory, hub, closed));
    hub.views.add(view);
    try {
      view.attach((await hub.socket).socket);
      return view;
    } catch (error) {
      hub.views.delete(view);
      view.destroy();
      throw error;
    }
  }

  [Symbol.dispose](): void {
    for (const hub of this.#hubs.values()) for (const view of hub.views) view.destroy();
    this.#hubs.clear();
  }

  #hubFor(directory: string, options: Abortable): Hub {
    const known = this.#hubs.get(directory);
    if (known) return known;
    const hub: Hub = { socket: connectConsole(directory, options), views: new Set() };
    this.#hubs.set(directory, hub);
    const forget = () => {
      if (this.#hubs.get(directory) === hub) this.#hubs.delete(directory);
      for (const view of hub.views) view.finish();
    };
    hub.socket.then(({ socket, lock }) => {
      socket.on("data", (piece: Buffer) => {
        for (const view of hub.views) view.show(piece);
      });
      socket.once("close", () => {
        lock[Symbol.dispose]();
        forget();
      });
    }, forget);
    return hub;
  }

  // oxlint-disable-next-line max-params -- who leaves what
  #detach(directory: string, hub: Hub, view: ConsoleView): void {
    hub.views.delete(view);
    if (hub.views.size > 0) return;
    if (this.#hubs.get(directory) === hub) this.#hubs.delete(directory);
    hub.socket.then(
      ({ socket }) => socket.destroy(),
      () => undefined,
    );
  }
}

async function connectConsole(
  directory: string,
  options: Abortable,
): Promise<{ socket: Socket; lock: FileLock }> {
  const lock = await takeConsole(directory, options);
  try {
    const socket = await connectIn(directory, consoleSocket, options);
    socket.on("error", () => undefined); // "close" follows
    return { socket, lock };
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

async function takeConsole(directory: string, options: Abortable): Promise<FileLock> {
  try {
    return await lockFile(join(directory, consoleLock), { signal: withDeadline(options.signal, takeMs) });
  } catch (error) {
    options.signal.throwIfAborted();
    throw new Fault("conflict", "the console is in use by another program", { cause: error });
  }
}

/** One user's view. A view whose user does not read misses output rather than stop the others. */
class ConsoleView extends Duplex {
  readonly #left: (view: ConsoleView) => void;
  #socket: Socket | undefined;
  #flowing = true;

  constructor(left: (view: ConsoleView) => void) {
    super({ highWaterMark: 256 * 1024 });
    this.#left = left;
    this.on("error", () => undefined);
  }

  attach(socket: Socket): void {
    this.#socket = socket;
  }

  show(piece: Buffer): void {
    if (this.#flowing && !this.readableEnded && !this.destroyed) this.#flowing = this.push(piece);
  }

  /** The VM is gone. */
  finish(): void {
    if (!this.destroyed && !this.readableEnded) this.push(null);
    this.end();
  }

  override _read(): void {
    this.#flowing = true;
  }

  // oxlint-disable-next-line max-params -- the stream interface of Node
  override _write(data: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (!this.#socket || this.#socket.destroyed) return done();
    this.#socket.write(data, () => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#left(this);
    done(error);
  }
}
