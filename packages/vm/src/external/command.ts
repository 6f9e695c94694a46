/**
 * Spawning the external `cocoon` command. Data comes on stdout, everything else on stderr; exit code 0 is success, any
 * other is an error whose text decides what it means, since the command has no finer codes.
 */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { Fault, getErrorMessage, systemCode, type Abortable, type FaultCode } from "@cocoon/core";

export type CocoonChild = ChildProcessByStdio<Writable, Readable, Readable>;

export interface CocoonCommand {
  /** Program and leading arguments, `sudo -n` included where it is needed. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const maxOutputBytes = 64 * 1024 * 1024;
const maxErrorBytes = 64 * 1024;

/** Starts the command with pipes for all three streams. */
export function start(command: CocoonCommand, args: readonly string[]): CocoonChild {
  const [program = "", ...leading] = command.argv;
  return spawn(program, [...leading, ...args], { stdio: ["pipe", "pipe", "pipe"], env: command.env });
}

export interface RunOptions extends Abortable {
  /** Fed to standard input. */
  readonly input?: Readable;
}

/** Runs the command to its end and returns its stdout. */
export async function run(
  command: CocoonCommand,
  args: readonly string[],
  options: RunOptions,
): Promise<string> {
  const child = start(command, args);
  const pieces: Buffer[] = [];
  let bytes = 0;
  child.stdout.on("data", (piece: Buffer) => {
    bytes += piece.length;
    if (bytes <= maxOutputBytes) pieces.push(piece);
    else child.kill("SIGKILL");
  });
  feed(child, options.input);
  await ended(child, options);
  return Buffer.concat(pieces).toString("utf8");
}

function feed(child: CocoonChild, input: Readable | undefined): void {
  child.stdin.on("error", () => undefined); // it may end without reading everything; its exit code tells
  if (!input) return void child.stdin.end();
  input.once("error", () => child.kill("SIGTERM"));
  input.pipe(child.stdin);
}

/** Resolves when the command has ended well; throws what it said otherwise. An abort ends it. */
export async function ended(child: CocoonChild, { signal }: Abortable): Promise<void> {
  let text = "";
  child.stderr
    .setEncoding("utf8")
    .on("data", (piece: string) => (text = `${text}${piece}`.slice(-maxErrorBytes)));
  const abort = () => child.kill("SIGTERM");
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", (error) => reject(cannotStart(error)));
      child.once("close", resolve);
    });
    signal.throwIfAborted();
    if (code !== 0) throw toCommandFault(text, code);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function cannotStart(error: unknown): Fault {
  const why =
    systemCode(error) === "ENOENT"
      ? "it is not installed, or VK_COCOON_BIN names the wrong file"
      : getErrorMessage(error);
  return new Fault("unavailable", `cannot start cocoon: ${why}`, { cause: error });
}

/** What the texts mean, first match wins. Texts of all vintages; letters of any case. */
const meanings: readonly (readonly [RegExp, FaultCode])[] = [
  [
    /a password is required|a terminal is required to (read the password|authenticate)|sudo: .*not allowed/i,
    "forbidden",
  ],
  [/vm not found|no such vm/i, "notFound"],
  [/snapshot not found|no such snapshot/i, "notFound"],
  [/not found in any backend|not resolved/i, "notFound"],
  [/already exists|already in use by/i, "alreadyExists"],
  [
    /force required|vm not running|does not belong to vm|ambiguous ref|nic count mismatch|multiple backends|is in use by an active/i,
    "conflict",
  ],
  [/no space left/i, "outOfSpace"],
  [/unsupported snapshot archive version/i, "preconditionFailed"],
  [
    /below snapshot minimum|must be at least|exceeds host cores|invalid |mutually exclusive|unknown (flag|option|shorthand)/i,
    "invalid",
  ],
];

function toCommandFault(stderr: string, code: number | null): Fault {
  const text = errorText(stderr) || `cocoon ended with ${code ?? "a signal"}`;
  const meaning = meanings.find(([pattern]) => pattern.test(text));
  if (meaning?.[1] === "forbidden")
    return new Fault(
      "forbidden",
      `${text}: allow "cocoon" in sudoers without a password, run as root, or set VK_COCOON_SUDO=never`,
    );
  return new Fault(meaning?.[1] ?? "internal", text);
}

/** The last `Error: …` line and what follows it; else the last lines of the log. */
function errorText(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  const at = lines.findLastIndex((line) => line.startsWith("Error: "));
  if (at >= 0) return lines.slice(at).join("\n").slice("Error: ".length);
  return lines.slice(-3).join(" | ").trim();
}
