/** Programs of a fake guest, as the port shows them. */
import { PassThrough } from "node:stream";
import { Fault } from "@cocoon/core";
import type { GuestExit, GuestProcess } from "../../runtime.ts";
import type { ExecRequest, TtySize } from "../../requests.ts";
import type { FakeGuest } from "./fake-guest.ts";

const signalNumbers = { HUP: 1, INT: 2, QUIT: 3, KILL: 9, TERM: 15 } as const;

export class FakeProcess implements GuestProcess {
  readonly stdin = new PassThrough();
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly exited: Promise<GuestExit>;
  size: TtySize;
  readonly #exit = Promise.withResolvers<GuestExit>();

  constructor(request: ExecRequest) {
    this.exited = this.#exit.promise;
    this.exited.catch(() => undefined); // a caller that only reads the output need not listen
    this.size = request.tty ?? { rows: 24, columns: 80 };
    this.stdin.on("error", () => undefined); // writing to a program that ended is not a fault of the caller
    if (request.tty) this.stderr.end();
    if (!request.stdin) this.stdin.end();
  }

  end(exit: GuestExit): void {
    this.stdout.end();
    this.stderr.end();
    this.#exit.resolve(exit);
  }

  /** The guest is gone. */
  fail(): void {
    this.stdout.end();
    this.stderr.end();
    this.#exit.reject(new Fault("unavailable", "the channel to the guest's agent was closed"));
  }

  resize(size: TtySize): void {
    this.size = size;
  }

  signal(name: keyof typeof signalNumbers): void {
    const signal = signalNumbers[name];
    this.end({ code: 128 + signal, signal });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.signal("KILL");
    return this.exited.then(
      () => undefined,
      () => undefined,
    );
  }
}

/** The programs that every fake guest has. `notFound` for all others. */
export function runProgram(guest: FakeGuest, request: ExecRequest): FakeProcess {
  const [name = "", ...words] = request.argv;
  const start = programs[name];
  if (!start) throw new Fault("notFound", `${name}: no such program`);
  const process = new FakeProcess(request);
  start({ guest, process, words, env: request.env ?? {} });
  return process;
}

interface Run {
  readonly guest: FakeGuest;
  readonly process: FakeProcess;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const programs: Readonly<Record<string, (run: Run) => void>> = {
  true: ({ process }) => process.end({ code: 0 }),
  sync: ({ process }) => process.end({ code: 0 }),
  sleep: () => undefined,
  hostname: ({ guest, process }) => finish(process, `${guest.hostname}\n`),
  date: ({ process }) => finish(process, `${Math.floor(Date.now() / 1000)}\n`),
  cat: ({ guest, process, words }) => {
    const [path] = words;
    if (path === undefined)
      return void process.stdin.pipe(process.stdout).on("finish", () => process.end({ code: 0 }));
    const text = guest.read(path);
    if (text !== undefined) return finish(process, text);
    process.stderr.write(`cat: can't open '${path}': No such file or directory\n`);
    process.end({ code: 1 });
  },
  tee: ({ guest, process, words }) => {
    let text = "";
    process.stdin.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    process.stdin.on("end", () => {
      guest.write(words[0] ?? "", text);
      finish(process, text);
    });
  },
  sh: ({ guest, process, words, env }) => {
    const size = () => process.size;
    if (words[0] === "-c") {
      const reply = guest.shell({ text: words[1] ?? "", env, size: size() });
      process.stderr.write(reply.stderr);
      process.stdout.write(reply.stdout);
      if (!words[1]?.includes("exec sleep")) process.end({ code: reply.exit ?? 0 });
      return;
    }
    onLines(process.stdin, (text) => {
      const reply = guest.shell({ text, env, size: size() });
      process.stdout.write(reply.stdout);
      if (reply.exit !== undefined) process.end({ code: reply.exit });
    });
  },
};

function finish(process: FakeProcess, text: string): void {
  process.stdout.write(text);
  process.end({ code: 0 });
}

/** Calls for each line of input. */
export function onLines(input: PassThrough, take: (line: string) => void): void {
  let rest = "";
  input.setEncoding("utf8").on("data", (piece: string) => {
    const lines = `${rest}${piece}`.split(/[\r\n]/);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") take(line);
  });
}
