/** Commands in guests without agent, by SSH over a connection that the runtime dials. Keys first, password if set. */
import { Fault, getErrorMessage } from "@cocoon/core";
import type { CommandIo } from "@cocoon/kubelet";
import type { Client, ClientChannel, ConnectConfig } from "ssh2";
import type { GuestCommand } from "./command.ts";
import { shellWords } from "./shell-words.ts";
import { drain, feed } from "./streams.ts";

export interface SshLogin {
  readonly user: string;
  readonly password?: string;
  readonly privateKey?: string;
}

const readyTimeoutMs = 10_000;
const sshPort = 22;

export async function execBySsh(target: GuestCommand, io: CommandIo): Promise<number> {
  const { runtime, vmId, ssh } = target;
  if (!ssh.password && !ssh.privateKey)
    throw new Fault(
      "notSupported",
      "the guest has no agent, and no SSH login is configured; set VK_SSH_KEY or VK_SSH_PASSWORD",
    );
  const sock = await runtime.dial(vmId, sshPort, { signal: io.signal });
  // Loaded when it is needed: most nodes never use SSH.
  const ssh2 = await import("ssh2");
  const client = new ssh2.default.Client();
  const hangUp = () => client.end();
  io.signal.addEventListener("abort", hangUp, { once: true });
  try {
    await connect(client, {
      sock,
      username: ssh.user,
      readyTimeout: readyTimeoutMs,
      ...(ssh.password ? { password: ssh.password } : {}),
      ...(ssh.privateKey ? { privateKey: ssh.privateKey } : {}),
    });
    return await runOver(client, target, io);
  } finally {
    io.signal.removeEventListener("abort", hangUp);
    client.end();
    sock.destroy();
  }
}

function connect(client: Client, config: ConnectConfig): Promise<void> {
  return new Promise((resolve, reject) => {
    client.once("ready", resolve);
    client.on("error", (error) =>
      reject(new Fault("unavailable", `ssh to the guest: ${getErrorMessage(error)}`, { cause: error })),
    );
    client.once("close", () => reject(new Fault("unavailable", "ssh to the guest: connection closed")));
    client.connect(config);
  });
}

async function runOver(client: Client, { command, env }: GuestCommand, io: CommandIo): Promise<number> {
  const assignments = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const line = shellWords(assignments.length > 0 ? ["env", ...assignments, ...command] : command);
  const pty = io.tty ? { pty: { term: "xterm", rows: 24, cols: 80 } } : {};
  const { channel, exited } = await new Promise<Opened>((resolve, reject) => {
    client.exec(line, pty, (error, opened) => {
      if (error) return reject(error);
      // Here and now: a short command ends within the same packet.
      resolve({ channel: opened, exited: awaitExit(opened) });
    });
  });
  feed(io.stdin, channel);
  void followSize(channel, io);
  const [code] = await Promise.all([exited, drain(channel, io.stdout), drain(channel.stderr, io.stderr)]);
  return code;
}

interface Opened {
  readonly channel: ClientChannel;
  readonly exited: Promise<number>;
}

function awaitExit(channel: ClientChannel): Promise<number> {
  return new Promise((resolve, reject) => {
    let code: number | undefined;
    channel.once("exit", (status: number | null, signalName?: string) => {
      code = status ?? 128 + (signalNumbers[signalName?.replace(/^SIG/, "") ?? ""] ?? 1);
    });
    channel.once("close", () =>
      code === undefined
        ? reject(new Fault("unavailable", "the guest hung up before the command ended"))
        : resolve(code),
    );
  });
}

const signalNumbers: Readonly<Record<string, number>> = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  KILL: 9,
  PIPE: 13,
  TERM: 15,
};

async function followSize(channel: ClientChannel, io: CommandIo): Promise<void> {
  if (!io.resize) return;
  for await (const { width, height } of io.resize) channel.setWindow(height, width, 0, 0);
}
