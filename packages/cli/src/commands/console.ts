/**
 * console: the serial console of a machine, as if one sat in front of it. Ctrl-] leaves it; everything else, Ctrl-C too,
 * goes to the guest. kubectl would keep our terminal in line mode, because the pod's container asks for no terminal;
 * so we take the terminal's keys and give them to it as they are.
 */
import type { ClusterOptions } from "../cluster/session.ts";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";
import { openGuest, waitForExit } from "../guest/kubectl-program.ts";
import { exitCode, Quit } from "../run-cli.ts";

export const command: CommandSpec = {
  usage: "console <machine>",
  summary: "the serial console of a machine",
  description:
    "Opens the serial console. Ctrl-] leaves it; every other key goes to the guest. A set's name means its main agent. Needs the right to create pods/attach, and kubectl.",
  options: clusterOptions,
  examples: ["cocoonctl console demo-0"],
  run: openConsole,
};

const leaveKey = 0x1d; // Ctrl-]

/** What of the typed bytes the guest gets, and whether the person leaves. */
export function typed(bytes: Uint8Array): { readonly forGuest: Uint8Array; readonly leave: boolean } {
  const at = bytes.indexOf(leaveKey);
  return at < 0 ? { forGuest: bytes, leave: false } : { forGuest: bytes.subarray(0, at), leave: true };
}

async function openConsole(name: string, options: ClusterOptions): Promise<void> {
  await using guest = await openGuest(name, options);
  const args = ["attach", "--stdin", "--quiet", guest.name, "--container", guest.container];
  const child = await guest.start(args, { stdio: ["pipe", "inherit", "inherit"] });
  if (!process.stdin.isTTY) {
    if (child.stdin) process.stdin.pipe(child.stdin);
    throw new Quit(await waitForExit(child));
  }
  process.stderr.write(`Console of ${guest.name}. Enter shows a prompt, Ctrl-] leaves.\n`);
  let left = false;
  process.stdin.setRawMode(true);
  process.stdin.on("data", (bytes: Buffer) => {
    const { forGuest, leave } = typed(bytes);
    child.stdin?.write(forGuest);
    if (!leave) return;
    left = true;
    child.kill("SIGTERM");
  });
  child.stdin?.on("error", () => undefined); // it ended while a key was on its way
  try {
    const code = await waitForExit(child);
    throw new Quit(left ? exitCode.done : code);
  } finally {
    process.stdin.setRawMode(false);
    process.stdin.pause();
    process.stderr.write(left ? "\r\nLeft the console; the machine goes on.\n" : "\r\n");
  }
}
