/** Programs in guests, and logs. */
import { join } from "node:path";
import { open, stat } from "node:fs/promises";
import { Fault, isFault, getErrorMessage, sleep } from "@cocoon/core";
import type { GuestProcess } from "@cocoon/vm";
import { vmFile } from "@cocoon/qemu";
import { Quit } from "../quit.ts";
import type { CommandSession } from "../session.ts";
import { wholeNumber } from "../vm-flags.ts";

export interface ExecFlags {
  readonly interactive?: boolean;
  readonly tty?: boolean;
  readonly env: readonly string[];
}

/** The guest's exit code becomes ours. */
export async function execInVm(
  session: CommandSession,
  { ref, argv, flags }: { readonly ref: string; readonly argv: readonly string[]; readonly flags: ExecFlags },
): Promise<void> {
  const runtime = await session.runtime();
  const env = Object.fromEntries(flags.env.map(readPair));
  const tty = flags.tty && session.io.stdin.isTTY ? terminalSize() : undefined;
  const request = { argv, env, stdin: flags.interactive ?? false, ...(tty ? { tty } : {}) };
  const { id } = await runtime.inspect(ref, session);
  await using program = await runtime
    .exec(id, request, session)
    .catch((error: unknown) => cannotRun(session, error));
  session.signal.addEventListener("abort", () => program.signal("TERM"), { once: true });
  const code = await relay(session, program, request);
  if (code !== 0) throw new Quit(code);
}

/** As a shell has it: 127 for a program that is not there, 126 for one that may not be run. */
function cannotRun(session: CommandSession, error: unknown): never {
  if (!isFault(error, "notFound") && !isFault(error, "forbidden")) throw error;
  session.say(`Error: ${getErrorMessage(error)}`);
  throw new Quit(error.code === "notFound" ? 127 : 126);
}

async function relay(
  session: CommandSession,
  program: GuestProcess,
  { stdin, tty }: { readonly stdin: boolean; readonly tty?: { rows: number; columns: number } },
): Promise<number> {
  const { io } = session;
  if (tty) io.stdin.setRawMode?.(true);
  const resize = () => program.resize(terminalSize());
  if (tty) process.on("SIGWINCH", resize);
  try {
    if (stdin) io.stdin.pipe(program.stdin);
    program.stdout.pipe(io.stdout, { end: false });
    program.stderr.pipe(io.stderr, { end: false });
    const { code } = await program.exited;
    await Promise.all([drained(program.stdout), drained(program.stderr)]);
    return code;
  } finally {
    if (tty) io.stdin.setRawMode?.(false);
    process.off("SIGWINCH", resize);
    io.stdin.unpipe(program.stdin);
    io.stdin.pause();
  }
}

async function drained(stream: NodeJS.ReadableStream & { readonly readableEnded?: boolean }): Promise<void> {
  if (stream.readableEnded) return;
  await new Promise<void>((resolve) => {
    stream.once("end", resolve);
    stream.once("close", resolve);
  });
}

function terminalSize(): { rows: number; columns: number } {
  return { rows: process.stdout.rows || 24, columns: process.stdout.columns || 80 };
}

function readPair(pair: string): readonly [string, string] {
  const at = pair.indexOf("=");
  if (at < 1) throw new Fault("invalid", `invalid --env "${pair}": use KEY=value`);
  return [pair.slice(0, at), pair.slice(at + 1)];
}

export interface LogFlags {
  readonly tail?: string;
  readonly follow?: boolean;
  readonly console?: boolean;
}

const pollMs = 200;

export async function printLogs(session: CommandSession, ref: string, flags: LogFlags): Promise<void> {
  const runtime = await session.runtime();
  const vm = await runtime.inspect(ref, session);
  const path = join(
    session.settings.rootDir,
    "qemu",
    "vms",
    vm.id,
    flags.console ? vmFile.consoleLog : vmFile.log,
  );
  const content = await readFrom(path, 0);
  session.print(
    flags.tail === undefined
      ? content.toString("utf8")
      : cutLastLines(content, wholeNumber(flags.tail, "tail")),
  );
  let offset = content.length;
  while (flags.follow && (await sleep(pollMs, session))) {
    const more = await readFrom(path, offset);
    offset += more.length;
    if (more.length > 0) session.print(more.toString("utf8"));
  }
}

async function readFrom(path: string, offset: number): Promise<Buffer> {
  const size = await stat(path).then(
    (status) => status.size,
    () => 0,
  );
  if (size <= offset) return Buffer.alloc(0);
  await using file = await open(path, "r");
  const buffer = Buffer.alloc(size - offset);
  const { bytesRead } = await file.read(buffer, 0, buffer.length, offset);
  return buffer.subarray(0, bytesRead);
}

function cutLastLines(content: Buffer, count: number): string {
  const lines = content.toString("utf8").split("\n");
  const complete = lines.at(-1) === "" ? lines.slice(0, -1) : lines;
  const kept = count === 0 ? [] : complete.slice(-count);
  return kept.length === 0 ? "" : `${kept.join("\n")}\n`;
}
