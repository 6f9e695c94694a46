/** A program in a guest, through `cocoon vm exec`: the command's streams and exit code are the program's. */
import { Fault } from "@cocoon/core";
import type { Readable, Writable } from "node:stream";
import type { GuestExit, GuestProcess } from "../runtime.ts";
import type { ExecRequest } from "../requests.ts";
import { execArguments } from "./argv.ts";
import { start, type CocoonChild, type CocoonCommand } from "./command.ts";

export class CliProcess implements GuestProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<GuestExit>;
  readonly #child: CocoonChild;
  #ended = false;

  constructor(child: CocoonChild, request: ExecRequest) {
    this.#child = child;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.stderr = child.stderr;
    this.stdin.on("error", () => undefined); // writing to a program that ended is not a fault of the caller
    if (!request.stdin) this.stdin.end();
    this.exited = new Promise((resolve, reject) => {
      child.once("error", (error) =>
        reject(new Fault("unavailable", "cannot start cocoon", { cause: error })),
      );
      child.once("exit", (code, signal) => {
        this.#ended = true;
        if (signal) return reject(new Fault("unavailable", `cocoon was ended by ${signal}`));
        // The command has only a code: by convention those above 128 are signals.
        resolve(
          code !== null && code > 128 && code < 160 ? { code, signal: code - 128 } : { code: code ?? 1 },
        );
      });
    });
    this.exited.catch(() => undefined); // a caller that only reads the output need not listen
  }

  resize(): void {
    // The command has no terminal to resize.
  }

  signal(): void {
    this.#child.kill("SIGTERM");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) this.#child.kill("SIGTERM");
    await this.exited.catch(() => undefined);
  }
}

/** The command does not say when the program has begun; one that cannot be started ends with 126 or 127. */
export function startProgram(command: CocoonCommand, id: string, request: ExecRequest): CliProcess {
  return new CliProcess(start(command, execArguments(id, request)), request);
}
