import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Kills a child and waits for its end. One that ended by itself a moment before is fine too: its `exit` never comes again. */
export async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}
