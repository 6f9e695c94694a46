/** A program in the guest, joined to the streams of exec. */
import { isFault, type Abortable } from "@cocoon/core";
import type { CommandIo } from "@cocoon/kubelet";
import type { GuestProcess, VmRuntime } from "@cocoon/vm";
import { execBySsh, type SshLogin } from "./ssh.ts";
import { drain, feed } from "./streams.ts";

export interface GuestCommand {
  readonly runtime: VmRuntime;
  readonly vmId: string;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly ssh: SshLogin;
}

/** Through the agent where the guest has one, else by SSH. Resolves with the exit code when all output is out. */
export async function execInGuest(target: GuestCommand, io: CommandIo): Promise<number> {
  const { runtime, vmId, command, env } = target;
  let program: GuestProcess;
  try {
    const tty = io.tty ? { tty: { rows: 24, columns: 80 } } : {};
    const request = { argv: command, env, stdin: io.stdin !== undefined, ...tty };
    program = await runtime.exec(vmId, request, { signal: io.signal });
  } catch (error) {
    if (isFault(error, "notSupported")) return execBySsh(target, io);
    throw error;
  }
  return join(program, io);
}

/** Runs a program through the agent, without input, and returns its exit code; its output is dropped. */
export async function runToEnd(
  runtime: VmRuntime,
  { vmId, argv }: { readonly vmId: string; readonly argv: readonly string[] },
  options: Abortable,
): Promise<number> {
  await using program = await runtime.exec(vmId, { argv }, options);
  program.stdin.end();
  program.stdout.resume();
  program.stderr.resume();
  return (await program.exited).code;
}

async function join(program: GuestProcess, io: CommandIo): Promise<number> {
  await using running = program;
  const kill = () => running.signal("HUP");
  io.signal.addEventListener("abort", kill, { once: true });
  try {
    feed(io.stdin, running.stdin);
    void followSize(running, io);
    const [exit] = await Promise.all([
      running.exited,
      drain(running.stdout, io.stdout),
      drain(running.stderr, io.stderr),
    ]);
    return exit.code;
  } finally {
    io.signal.removeEventListener("abort", kill);
  }
}

async function followSize(program: GuestProcess, io: CommandIo): Promise<void> {
  if (!io.resize) return;
  for await (const { width, height } of io.resize) program.resize({ rows: height, columns: width });
}
