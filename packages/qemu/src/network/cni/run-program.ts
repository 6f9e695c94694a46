/** One short program with input and a deadline. It ends with everything that it started: plugins call other plugins. */
import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { Fault, toFault, withDeadline, type Abortable } from "@cocoon/core";

export interface ProgramRun extends Abortable {
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly input: string;
  readonly timeoutMs: number;
  /** What it is called in an error. */
  readonly what: string;
}

export interface ProgramOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const maxOutputBytes = 1024 * 1024;

/** `timeout` when it did not end in time; it and its children are then gone. */
export async function runProgram(run: ProgramRun): Promise<ProgramOutput> {
  run.signal.throwIfAborted();
  const [program, ...args] = run.command;
  const child = spawn(program, args, { stdio: "pipe", env: run.env, detached: true });
  const deadline = withDeadline(run.signal, run.timeoutMs);
  const end = () => endGroup(child.pid);
  deadline.addEventListener("abort", end, { once: true });
  child.stdin.on("error", () => undefined); // it may end without reading its input
  child.stdin.end(run.input);
  const output = { stdout: collect(child.stdout), stderr: collect(child.stderr) };
  try {
    const code = await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (exitCode) => resolve(exitCode ?? -1));
    });
    run.signal.throwIfAborted();
    if (deadline.aborted) throw new Fault("timeout", `${run.what} did not end within ${run.timeoutMs} ms`);
    return { code, stdout: output.stdout(), stderr: output.stderr() };
  } catch (error) {
    throw error instanceof Fault || run.signal.aborted ? error : toFault(error, run.what);
  } finally {
    deadline.removeEventListener("abort", end);
  }
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    return; // it ended by itself
  }
}

function collect(stream: Readable): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    if (bytes < maxOutputBytes) chunks.push(chunk);
    bytes += chunk.length;
  });
  return () => Buffer.concat(chunks).toString("utf8");
}
