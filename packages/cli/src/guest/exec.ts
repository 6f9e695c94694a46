/** exec: a command, or a shell, in a machine. The exit code is the command's. */
import { machineContainer } from "@cocoon/contract";
import { findMachine, nameOf } from "../cluster/find.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { Quit } from "../run-cli.ts";
import { assertAwake } from "./assert-awake.ts";
import { exitCodeOf, kubectlFor, startKubectl } from "./kubectl-program.ts";

export interface ExecOptions extends ClusterOptions {
  readonly stdin?: boolean;
  readonly tty?: boolean;
}

export interface Terminal {
  readonly stdin: boolean;
  readonly stdout: boolean;
}

export interface ExecRequest {
  readonly pod: string;
  readonly container: string;
  readonly command: readonly string[];
  readonly options: ExecOptions;
  readonly terminal: Terminal;
}

/** Without a command a shell, with a terminal where we have one. */
export function execArguments({ pod, container, command, options, terminal }: ExecRequest): string[] {
  const shell = command.length === 0;
  const tty = options.tty ?? (shell && terminal.stdin && terminal.stdout);
  const stdin = options.stdin ?? (tty || shell || !terminal.stdin);
  return [
    "exec",
    ...(stdin ? ["--stdin"] : []),
    ...(tty ? ["--tty"] : []),
    pod,
    "--container",
    container,
    "--",
    ...(shell ? ["sh", "-l"] : command),
  ];
}

export async function exec(name: string, command: readonly string[], options: ExecOptions): Promise<void> {
  await using session = await openSession(options);
  const pod = await findMachine(session, name, { mainOfSet: true });
  assertAwake(pod);
  const container = pod.spec?.containers[0]?.name ?? machineContainer;
  const terminal = { stdin: process.stdin.isTTY ?? false, stdout: process.stdout.isTTY ?? false };
  const args = execArguments({ pod: nameOf(pod), container, command, options, terminal });
  const child = await startKubectl(await kubectlFor(session), args, { stdio: "inherit" });
  throw new Quit(await exitCodeOf(child));
}
