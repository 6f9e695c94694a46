/** exec: a command, or a shell, in a machine. The exit code is the command's. */
import { clusterOptions, type CommandSpec } from "../command-spec.ts";
import { wakeOption, type WakeFlag } from "../guest/ensure-awake.ts";
import { openGuest, waitForExit } from "../guest/kubectl-program.ts";
import { Quit } from "../run-cli.ts";

export const command: CommandSpec = {
  usage: "exec <machine> [command...]",
  summary: "run a command, or a shell, in a machine",
  description:
    "Runs a command in a machine, by its guest agent or SSH; without a command, a shell. A set's name means its main agent. The exit code is the command's. Needs the right to create pods/exec, and kubectl.",
  options: {
    "-i, --stdin": "pass standard input on (default: with a shell, or when it is no terminal)",
    "-t, --tty": "with a terminal (default: with a shell on a terminal)",
    ...wakeOption,
    ...clusterOptions,
  },
  examples: [
    "cocoonctl exec demo",
    "cocoonctl exec demo-1 -- uname -a",
    "cocoonctl exec --wake demo -- uptime",
    "tar c . | cocoonctl exec -i demo-0 -- tar x -C /srv",
  ],
  run: exec,
};

interface ExecOptions extends WakeFlag {
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

async function exec(name: string, command: readonly string[], options: ExecOptions): Promise<void> {
  await using guest = await openGuest(name, options);
  const { name: pod, container } = guest;
  const terminal = { stdin: process.stdin.isTTY ?? false, stdout: process.stdout.isTTY ?? false };
  const args = execArguments({ pod, container, command, options, terminal });
  throw new Quit(await waitForExit(await guest.start(args, { stdio: "inherit" })));
}
