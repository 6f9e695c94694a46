/**
 * ssh: a port of this host is forwarded to the guest's SSH port through the API server, and ssh goes there. So it works
 * wherever kubectl works, also where the guest's network cannot be reached. The forward listens on loopback and ends with
 * ssh; a process that finds it meets the guest's own authentication. The host key is remembered for the machine, wherever it runs:
 * by its name and its set, because names come back in other clusters. Those of this machine's own platform are kept in its
 * directory, so that nothing is left of them when it is wiped.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { annotation, readText } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kube";
import { commandName } from "../invocation.ts";
import { Quit } from "../run-cli.ts";
import { wakeOption, type WakeFlag } from "../guest/ensure-awake.ts";
import { readGuestPort, startForward } from "../guest/forward-port.ts";
import { openGuest, waitForExit } from "../guest/kubectl-program.ts";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "ssh <machine> [command...]",
  summary: "log in by SSH through the API server",
  description:
    "Forwards a port of this host to the guest's SSH port through the API server and runs ssh there: it works wherever kubectl works. A set's name means its main agent. The guest needs an SSH server that knows your key. Needs the right to create pods/portforward, kubectl and ssh.",
  options: {
    "-l, --login <user>": ["user in the guest", "root"],
    "-p, --port <number>": ["SSH port of the guest", "22"],
    "-i, --identity <file>": "private key (default: those of ssh)",
    "--stdio": "connect standard input and output to the SSH port: for ProxyCommand of ssh and editors",
    ...wakeOption,
    ...clusterOptions,
  },
  examples: [
    "cocoonctl ssh web",
    "cocoonctl ssh -l debian web-1 -- journalctl -n 20",
    "ssh -o ProxyCommand='cocoonctl ssh --stdio --wake %h' root@web-0",
  ],
  run: ssh,
};

interface SshOptions extends WakeFlag {
  readonly login: string;
  readonly port: string;
  readonly identity?: string;
  readonly stdio?: boolean;
}

async function ssh(name: string, command: readonly string[], options: SshOptions): Promise<void> {
  const guestPort = readGuestPort(options.port);
  await using guest = await openGuest(name, options);
  const { pod } = guest;
  assertLinux(pod);
  await using stack = new AsyncDisposableStack();
  const forward = await startForward(guest, guestPort);
  stack.defer(() => void forward.child.kill("SIGTERM"));
  if (options.stdio) return await joinStdio(forward.port);
  const { home } = guest.session.target;
  const args = sshArguments({
    localPort: forward.port,
    hostKeyAlias: hostKeyAlias(pod),
    command,
    options,
    ...(home === undefined ? {} : { knownHosts: join(home, "known_hosts") }),
  });
  const child = spawn("ssh", args, { stdio: "inherit" });
  try {
    await once(child, "spawn");
  } catch (error) {
    throw new Fault("notFound", "ssh cannot be started; install an SSH client, or use exec", {
      cause: error,
    });
  }
  const code = await waitForExit(child);
  if (code === sshFailed)
    process.stderr.write(
      `ssh could not connect or log in. The guest needs an SSH server that knows your key; give it yours with:\n  ${commandName()} exec -i ${guest.name} -- sh -c 'umask 77; mkdir -p ~/.ssh; cat >> ~/.ssh/authorized_keys' < ~/.ssh/id_ed25519.pub\n`,
    );
  throw new Quit(code);
}

const sshFailed = 255;

/** Until either side ends. */
async function joinStdio(port: number): Promise<void> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  await once(socket, "connect");
  const sending = pipeline(process.stdin, socket).catch(() => socket.destroy());
  await pipeline(socket, process.stdout, { end: false }).catch(() => undefined);
  process.stdin.destroy();
  await sending;
}

function assertLinux({ metadata }: Pod): void {
  const os = readText(metadata.annotations, annotation.os);
  if (os === "windows")
    throw new Fault(
      "notSupported",
      `${metadata.name} runs Windows: forward its RDP port instead with: kubectl port-forward ${metadata.name} 3389`,
    );
}

export function hostKeyAlias({ metadata }: Pod): string {
  const [owner] = metadata.ownerReferences ?? [];
  return `${metadata.name}.${owner?.uid ?? metadata.uid ?? "cocoon"}`;
}

export interface SshRequest {
  readonly localPort: number;
  readonly hostKeyAlias: string;
  /** Default: where ssh itself keeps them. */
  readonly knownHosts?: string;
  readonly command: readonly string[];
  readonly options: Pick<SshOptions, "login" | "identity">;
}

export function sshArguments(request: SshRequest): string[] {
  const { localPort, hostKeyAlias, knownHosts, command, options } = request;
  return [
    "-p",
    String(localPort),
    "-l",
    options.login,
    ...(options.identity ? ["-i", options.identity] : []),
    "-o",
    `HostKeyAlias=${hostKeyAlias}`,
    "-o",
    "StrictHostKeyChecking=accept-new",
    "-o",
    "CheckHostIP=no",
    ...(knownHosts ? ["-o", `UserKnownHostsFile="${knownHosts}"`] : []),
    "127.0.0.1",
    ...(command.length > 0 ? ["--", ...command] : []),
  ];
}
