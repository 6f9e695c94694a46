/**
 * console: the serial console of a machine, as if one sat in front of it. Ctrl-] leaves it; everything else, Ctrl-C too,
 * goes to the guest. kubectl would keep our terminal in line mode, because the pod's container asks for no terminal;
 * so we take the terminal's keys and give them to it as they are.
 */
import { machineContainer } from "@cocoon/contract";
import { findMachine, nameOf } from "../cluster/find.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { exitCode, Quit } from "../run-cli.ts";
import { assertAwake } from "./assert-awake.ts";
import { exitCodeOf, kubectlFor, startKubectl } from "./kubectl-program.ts";

const leaveKey = 0x1d; // Ctrl-]

/** What of the typed bytes the guest gets, and whether the person leaves. */
export function typed(bytes: Uint8Array): { readonly forGuest: Uint8Array; readonly leave: boolean } {
  const at = bytes.indexOf(leaveKey);
  return at < 0 ? { forGuest: bytes, leave: false } : { forGuest: bytes.subarray(0, at), leave: true };
}

export async function openConsole(name: string, options: ClusterOptions): Promise<void> {
  await using session = await openSession(options);
  const pod = await findMachine(session, name, { mainOfSet: true });
  assertAwake(pod);
  const container = pod.spec?.containers[0]?.name ?? machineContainer;
  const args = ["attach", "--stdin", "--quiet", nameOf(pod), "--container", container];
  const interactive = process.stdin.isTTY ?? false;
  const child = await startKubectl(await kubectlFor(session), args, {
    stdio: ["pipe", "inherit", "inherit"],
  });
  if (!interactive) {
    if (child.stdin) process.stdin.pipe(child.stdin);
    throw new Quit(await exitCodeOf(child));
  }
  process.stderr.write(`Console of ${nameOf(pod)}. Enter shows a prompt, Ctrl-] leaves.\n`);
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
    const code = await exitCodeOf(child);
    throw new Quit(left ? exitCode.done : code);
  } finally {
    process.stdin.setRawMode(false);
    process.stdin.pause();
    process.stderr.write(left ? "\r\nLeft the console; the machine goes on.\n" : "\r\n");
  }
}
