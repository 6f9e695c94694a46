/** `kubectl logs`: the guest's journal where it has one, else what the serial console showed. */
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { isFault, messageOf, type Logger } from "@cocoon/core";
import type { LogOptions } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import { selectLines, stampingLines, type ConsoleTimes } from "./console-times.ts";

export interface LogTarget {
  readonly runtime: VmRuntime;
  readonly vmId: string;
  /** The console even where there is a journal. */
  readonly console: boolean;
  readonly times: ConsoleTimes;
  readonly log: Logger;
}

/** Lines of the journal when nobody says how many: all of it could be months. */
const defaultTail = 200;

export async function guestLogs(target: LogTarget, options: LogOptions): Promise<Readable> {
  const journal = target.console ? undefined : await openJournal(target, options);
  return journal ?? consoleLogs(target, options);
}

export function journalCommand(options: LogOptions): readonly string[] {
  const { tailLines, since, follow, timestamps } = options;
  return [
    "journalctl",
    "--no-pager",
    "--quiet",
    `--output=${timestamps ? "short-iso-precise" : "short"}`,
    ...(since ? [`--since=@${Math.floor(since.getTime() / 1000)}`] : []),
    ...(tailLines === undefined && since ? [] : [`--lines=${tailLines ?? defaultTail}`]),
    ...(follow ? ["--follow"] : []),
  ];
}

/** Undefined when there is no agent, or no journal. */
async function openJournal({ runtime, vmId }: LogTarget, options: LogOptions): Promise<Readable | undefined> {
  if (options.previous) return undefined;
  try {
    if (!(await hasJournal(runtime, vmId, options.signal))) return undefined;
    const program = await runtime.exec(vmId, { argv: journalCommand(options) }, options);
    program.stdin.end();
    program.stderr.resume();
    program.exited.catch(() => undefined);
    const end = () => void program[Symbol.asyncDispose]();
    options.signal.addEventListener("abort", end, { once: true });
    program.stdout.once("close", end);
    return program.stdout;
  } catch (error) {
    const none = (["notSupported", "timeout", "notFound"] as const).some((code) => isFault(error, code));
    if (none) return undefined;
    throw error;
  }
}

async function hasJournal(runtime: VmRuntime, vmId: string, signal: AbortSignal): Promise<boolean> {
  const argv = [
    "sh",
    "-c",
    'command -v journalctl >/dev/null && test -n "$(journalctl -n 1 -q --no-pager 2>/dev/null)"',
  ];
  await using program = await runtime.exec(vmId, { argv }, { signal });
  program.stdin.end();
  program.stdout.resume();
  program.stderr.resume();
  return (await program.exited).code === 0;
}

async function consoleLogs({ runtime, vmId, times, log }: LogTarget, options: LogOptions): Promise<Readable> {
  const { signal, tailLines, follow, since, timestamps } = options;
  // Attach first: what is shown between the two is then seen once more rather than never.
  const live = follow ? await runtime.openConsole(vmId, { signal }) : undefined;
  const history = await runtime.readConsole(vmId, { signal });
  const marks = times.look(vmId, history.length, new Date());
  const shown = lastLines(selectLines(history, marks, { since, timestamps }), tailLines);
  if (!live) return Readable.from(shown.length > 0 ? [shown] : [], { objectMode: false });
  const output = new PassThrough();
  output.write(shown);
  output.once("close", () => live.destroy());
  const followed = timestamps
    ? pipeline(live, stampingLines(), output, { signal })
    : pipeline(live, output, { signal });
  followed.catch((error: unknown) => log.debug({ vm: vmId, error: messageOf(error) }, "console log ended"));
  return output;
}

export function lastLines(content: Buffer, lines: number | undefined): Buffer {
  if (lines === undefined) return content;
  if (lines === 0) return Buffer.alloc(0);
  const endsWithNewline = content.at(-1) === 10;
  let position = endsWithNewline ? content.length - 1 : content.length;
  for (let count = 0; count < lines; count += 1) {
    const newline = position > 0 ? content.lastIndexOf(10, position - 1) : -1;
    if (newline < 0) return content;
    position = newline;
  }
  return content.subarray(position + 1);
}
