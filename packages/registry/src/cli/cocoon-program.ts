/** The local VM runtime's command, as far as snapshots and images go in and out of it. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { pipeline } from "node:stream/promises";
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";

const keptErrorBytes = 4096;

export class CocoonProgram {
  readonly #command: string;

  constructor(command: string) {
    this.#command = command;
  }

  /** The archive of a local snapshot, for as long as `use` reads it. */
  async exportSnapshot<T>(
    name: string,
    use: (archive: AsyncIterable<Uint8Array>) => Promise<T>,
    options: Abortable,
  ): Promise<T> {
    const running = this.#start(["snapshot", "export", name, "-o", "-"], ["ignore", "pipe", "pipe"], options);
    const { stdout } = running.child;
    if (!stdout) throw new Fault("internal", "no output of the runtime's command");
    try {
      const result = await use(stdout as AsyncIterable<Uint8Array>);
      await running.succeeded;
      return result;
    } catch (error) {
      // When the command itself failed, what it says is the better explanation.
      stdout.destroy();
      await running.succeeded;
      throw error;
    }
  }

  async importSnapshot(
    archive: AsyncIterable<Uint8Array>,
    { name, description, signal }: Abortable & { readonly name: string; readonly description?: string },
  ): Promise<void> {
    const described = description === undefined ? [] : ["--description", description];
    await this.#feed(["snapshot", "import", "--name", name, ...described], archive, { signal });
  }

  async importImage(name: string, content: AsyncIterable<Uint8Array>, options: Abortable): Promise<void> {
    await this.#feed(["image", "import", name], content, options);
  }

  async #feed(
    args: readonly string[],
    content: AsyncIterable<Uint8Array>,
    options: Abortable,
  ): Promise<void> {
    const running = this.#start(args, ["pipe", "ignore", "pipe"], options);
    const { stdin } = running.child;
    if (!stdin) throw new Fault("internal", "no input of the runtime's command");
    try {
      await pipeline(content, stdin);
    } catch (error) {
      running.child.kill("SIGKILL"); // half an archive must not be taken for a whole one
      await running.ended;
      throw error;
    }
    await running.succeeded;
  }

  #start(
    args: readonly string[],
    stdio: ("ignore" | "pipe")[],
    { signal }: Abortable,
  ): { readonly child: ChildProcess; readonly succeeded: Promise<void>; readonly ended: Promise<unknown> } {
    const child = spawn(this.#command, args, { stdio, signal });
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-keptErrorBytes);
    });
    const ended = once(child, "close");
    const succeeded = ended.then(
      ([code]) => {
        if (code === 0) return;
        const what = `${this.#command} ${args.slice(0, 2).join(" ")}`;
        throw new Fault("unavailable", `${what} failed: ${said.trim() || `exit code ${code}`}`);
      },
      (error: unknown) => {
        const why = `cannot run ${this.#command}: ${getErrorMessage(error)}; set EPOCH_COCOON_BINARY`;
        throw new Fault("unavailable", why, { cause: error });
      },
    );
    succeeded.catch(() => undefined); // looked at when its turn comes
    ended.catch(() => undefined);
    return { child, succeeded, ended };
  }
}
