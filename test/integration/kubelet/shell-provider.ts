/** A provider for tests: its "containers" are programs of this machine, run in a directory of their own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { PassThrough, Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { CommandIo, LogOptions, Pod, PodProvider, TerminalSize } from "@cocoon/kubelet";
import { Fault, systemCode } from "@cocoon/core";

const signalNumbers: Readonly<Record<string, number>> = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

export class ShellProvider implements PodProvider {
  readonly sizes: TerminalSize[] = [];
  readonly running = new Set<number>();
  readonly logOptions: LogOptions[] = [];
  logText = "";

  createPod(): Promise<void> {
    return Promise.resolve();
  }

  updatePod(): Promise<void> {
    return Promise.resolve();
  }

  podDisappeared(): Promise<void> {
    return Promise.resolve();
  }

  deletePod(): Promise<void> {
    return Promise.resolve();
  }

  getPod(): Promise<Pod | undefined> {
    return Promise.resolve(undefined);
  }

  getPods(): Promise<readonly Pod[]> {
    return Promise.resolve([]);
  }

  onPodStatus(): void {}

  logs(_target: unknown, options: LogOptions): Promise<Readable> {
    this.logOptions.push(options);
    if (!options.follow) return Promise.resolve(Readable.from([Buffer.from(this.logText)]));
    const stream = new PassThrough();
    stream.write(this.logText);
    options.signal.addEventListener("abort", () => stream.end());
    return Promise.resolve(stream);
  }

  async exec(_target: unknown, command: readonly string[], io: CommandIo): Promise<number> {
    const [program = "false", ...args] = command;
    const child = spawn(program, args, { detached: true, stdio: ["pipe", "pipe", "pipe"] });
    await once(child, "spawn").catch((error: unknown) => {
      throw new Fault("notFound", `cannot run ${program}`, { cause: error });
    });
    const pid = child.pid ?? 0;
    this.running.add(pid);
    io.signal.addEventListener("abort", () => {
      if (!this.running.has(pid)) return;
      try {
        process.kill(-pid, "SIGKILL");
      } catch (error) {
        if (systemCode(error) !== "ESRCH") throw error; // it has ended by itself
      }
    });
    void this.#collectSizes(io);
    child.stdin.on("error", () => undefined); // a command may end without reading all of its input
    if (io.stdin) io.stdin.pipe(child.stdin);
    else child.stdin.end();
    const copies = [copy(child.stdout, io.stdout), copy(child.stderr, io.tty ? undefined : io.stderr)];
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    await Promise.all(copies);
    this.running.delete(pid);
    return code ?? 128 + (signalNumbers[signal ?? ""] ?? 0);
  }

  attach(target: unknown, io: CommandIo): Promise<number> {
    return this.exec(target, ["cat"], io);
  }

  async portForward(_pod: unknown, port: number): Promise<Duplex> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    return socket;
  }

  async #collectSizes(io: CommandIo): Promise<void> {
    if (!io.resize) return;
    for await (const size of io.resize) this.sizes.push(size);
  }
}

async function copy(from: Readable, to: NodeJS.WritableStream | undefined): Promise<void> {
  if (to) await pipeline(from, to, { end: false }).catch(() => undefined);
  else from.resume();
}
