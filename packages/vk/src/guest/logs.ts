/** `kubectl logs`: the guest's journal where it has one, else what the serial console showed. */
import { PassThrough, Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { isFault, getErrorMessage, type FaultCode, type Logger } from "@cocoon/core";
import type { LogOptions } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import { runToEnd } from "./command.ts";
import { selectLines, stampingLines, type ConsoleTimes } from "./console-times.ts";
import { execBySsh, type SshLogin } from "./ssh.ts";

export interface LogTarget {
  readonly runtime: VmRuntime;
  readonly vmId: string;
  /** The console even where there is a journal. */
  readonly console: boolean;
  readonly times: ConsoleTimes;
  /** For guests without agent. */
  readonly ssh: SshLogin;
  readonly log: Logger;
}

/** Lines of the journal when no number is given: all of it could be months. */
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

/** Undefined when the guest has no journal, or can be reached neither by its agent nor by SSH. */
async function openJournal(target: LogTarget, options: LogOptions): Promise<Readable | undefined> {
  const { runtime, vmId, log } = target;
  if (options.previous) return undefined;
  try {
    if ((await runToEnd(runtime, { vmId, argv: journalCheck }, options)) !== 0) return undefined;
    const program = await runtime.exec(vmId, { argv: journalCommand(options) }, options);
    program.stdin.end();
    program.stderr.resume();
    program.exited.catch(() => undefined);
    const end = () => void program[Symbol.asyncDispose]();
    options.signal.addEventListener("abort", end, { once: true });
    program.stdout.once("close", end);
    return program.stdout;
  } catch (error) {
    if (!isFault(error) || !unreachable.has(error.code)) throw error;
  }
  try {
    return await openSshJournal(target, options);
  } catch (error) {
    options.signal.throwIfAborted();
    log.debug({ vm: vmId, error: getErrorMessage(error) }, "no journal by SSH");
    return undefined;
  }
}

const unreachable: ReadonlySet<FaultCode> = new Set(["notSupported", "timeout", "notFound"]);

const journalCheck = [
  "sh",
  "-c",
  'command -v journalctl >/dev/null && test -n "$(journalctl -n 1 -q --no-pager 2>/dev/null)"',
];

async function openSshJournal(
  { runtime, vmId, ssh, log }: LogTarget,
  options: LogOptions,
): Promise<Readable | undefined> {
  if (!ssh.password && !ssh.privateKey) return undefined;
  const { signal } = options;
  const run = (command: readonly string[], stdout?: Writable) => {
    const io = { stdin: undefined, stdout, stderr: undefined, resize: undefined, tty: false, signal };
    return execBySsh({ runtime, vmId, ssh, command, env: {} }, io);
  };
  if ((await run(journalCheck)) !== 0) return undefined;
  const output = new PassThrough();
  const ended = run(journalCommand(options), output);
  ended
    .catch((error: unknown) => log.debug({ vm: vmId, error: getErrorMessage(error) }, "journal ended"))
    .finally(() => output.end());
  return output;
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
  followed.catch((error: unknown) =>
    log.debug({ vm: vmId, error: getErrorMessage(error) }, "console log ended"),
  );
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
