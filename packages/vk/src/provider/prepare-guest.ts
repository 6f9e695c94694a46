/**
 * After a clone: a guest without agent is told who it is. By its own command where the engine can run one, else as a
 * hint for people. Windows guests with fixed addresses get them over their serial console.
 */
import { annotation } from "@cocoon/contract";
import { isFault, messageOf, sleep, withDeadline, type Abortable } from "@cocoon/core";
import { assignWindowsAddresses, type Vm } from "@cocoon/vm";
import { postCloneScript } from "../guest/post-clone.ts";
import type { StepContext } from "./step-context.ts";

/** Milliseconds. */
interface PrepareTimes {
  readonly everyMs: number;
  readonly forMs: number;
}

const scriptTimes: PrepareTimes = { everyMs: 3_000, forMs: 180_000 };
const windowsMs = 300_000;

/** Never throws: how it went is told by events and annotations. */
export async function prepareGuest(
  context: StepContext,
  made: { readonly vm: Vm; readonly cloned: boolean; readonly times?: PrepareTimes },
  options: Abortable,
): Promise<void> {
  const { vm } = made;
  try {
    if (vm.config.os === "windows") return await assignAddresses(context, vm, options);
    if (made.cloned && vm.guest === "unknown") await refreshLinux(context, made, options);
  } catch (error) {
    if (!options.signal.aborted)
      context.log.warn({ vm: vm.name, error: messageOf(error) }, "guest not prepared");
  }
}

async function assignAddresses(context: StepContext, vm: Vm, { signal }: Abortable): Promise<void> {
  if (vm.nics.every((nic) => nic.address === undefined)) return;
  const limited = { signal: withDeadline(signal, windowsMs) };
  try {
    const console = await context.runtime.openConsole(vm.id, limited);
    console.on("error", () => undefined);
    try {
      await assignWindowsAddresses(console, { addresses: vm.nics.map((nic) => nic.address), ...limited });
    } finally {
      console.destroy();
    }
  } catch (error) {
    if (signal.aborted) return;
    context.tell({ type: "Warning", reason: "WindowsStaticIPFailed", message: messageOf(error) });
  }
}

async function refreshLinux(
  context: StepContext,
  { vm, times = scriptTimes }: { readonly vm: Vm; readonly times?: PrepareTimes },
  options: Abortable,
): Promise<void> {
  const { writer, runtime, tell } = context;
  const script = postCloneScript({ vm });
  const hint = { [annotation.postCloneHint]: Buffer.from(script, "utf8").toString("base64") };
  if (!(await runtime.describe(options)).can.exec) return writer.write(hint, options);
  await writer.write({ [annotation.postCloneState]: "running", [annotation.postCloneErrors]: null }, options);
  const failure = await runUntilDone(context, { vm, script, times }, options);
  if (options.signal.aborted) return;
  if (failure === undefined) {
    tell({ type: "Normal", reason: "PostCloneSucceeded", message: "the cloned guest has its own identity" });
    return writer.write({ [annotation.postCloneState]: "done" }, options);
  }
  const message = `the cloned guest was not told who it is: ${failure}`;
  tell({ type: "Warning", reason: "PostCloneExecExhausted", message });
  const failed = { [annotation.postCloneState]: "failed", [annotation.postCloneErrors]: failure };
  await writer.write({ ...hint, ...failed }, options);
}

/** Undefined once the script ended well; else what was last wrong. */
async function runUntilDone(
  { runtime }: StepContext,
  work: { readonly vm: Vm; readonly script: string; readonly times: PrepareTimes },
  { signal }: Abortable,
): Promise<string | undefined> {
  const { vm, script, times } = work;
  const deadline = performance.now() + times.forMs;
  let last = "no attempt";
  while (performance.now() < deadline && !signal.aborted) {
    try {
      await using program = await runtime.exec(
        vm.id,
        { argv: ["sh", "-c", `set -e; ${script}`] },
        { signal },
      );
      program.stdin.end();
      program.stdout.resume();
      program.stderr.resume();
      const { code } = await program.exited;
      if (code === 0) return undefined;
      last = `the script ended with ${code}`;
    } catch (error) {
      if (isFault(error, "notFound")) return "the VM is gone";
      last = messageOf(error);
    }
    await sleep(times.everyMs, { signal });
  }
  return last.slice(0, 500);
}
