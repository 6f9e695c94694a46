/**
 * After a clone or a wake: a guest without agent is given its identity, by its own command where the engine can run one, else as
 * a hint for people; Windows guests get fixed addresses over their serial console. Then the address is waited for.
 */
import { annotation, isWindowsPod } from "@cocoon/contract";
import { isFault, getErrorMessage, sleep, withDeadline, type Abortable } from "@cocoon/core";
import { assignWindowsAddresses, type Vm } from "@cocoon/vm";
import { runToEnd } from "../guest/command.ts";
import { postCloneScript } from "../guest/post-clone.ts";
import type { StepContext } from "./step-context.ts";

interface PrepareTimes {
  readonly everyMs: number;
  readonly forMs: number;
  /** How long a guest may take to have an address, and when a Windows guest is asked to renew its lease. */
  readonly addressMs: number;
  readonly renewAfterMs: number;
}

const defaultTimes: PrepareTimes = {
  everyMs: 3_000,
  forMs: 180_000,
  addressMs: 45_000,
  renewAfterMs: 30_000,
};
const windowsMs = 300_000;
const pollMs = 500;

interface Prepared {
  readonly vm: Vm;
  readonly cloned: boolean;
  readonly woken?: boolean;
  readonly times?: Partial<PrepareTimes>;
}

/** Never throws: the result is in events, metrics and annotations. */
export async function prepareGuest(
  context: StepContext,
  made: Prepared,
  { signal }: Abortable,
): Promise<void> {
  const { vm } = made;
  const times = { ...defaultTimes, ...made.times };
  try {
    if (isWindows(context, vm)) await assignAddresses(context, vm, { signal });
    else if (made.cloned && vm.guest === "unknown") await refreshLinux(context, { vm, times }, { signal });
    if (made.cloned || made.woken) await awaitAddress(context, { ...made, times }, { signal });
  } catch (error) {
    if (!signal.aborted) context.log.warn({ error: getErrorMessage(error) }, "guest not prepared");
  }
}

/** An external command does not say it of every clone; the pod does. */
function isWindows({ tracked }: StepContext, vm: Vm): boolean {
  return vm.config.os === "windows" || isWindowsPod(tracked.writer.pod);
}

async function assignAddresses(context: StepContext, vm: Vm, { signal }: Abortable): Promise<void> {
  if (vm.nics.every((nic) => nic.address === undefined)) return;
  const { runtime, emit, metrics } = context;
  const limited = { signal: withDeadline(signal, windowsMs) };
  try {
    const console = await runtime.openConsole(vm.id, limited);
    console.on("error", () => undefined);
    try {
      await assignWindowsAddresses(console, { addresses: vm.nics.map((nic) => nic.address), ...limited });
    } finally {
      console.destroy();
    }
    metrics.postclone_total.inc({ kind: "sac", result: "ok" });
  } catch (error) {
    if (signal.aborted) return;
    metrics.postclone_total.inc({ kind: "sac", result: "failed" });
    emit({ type: "Warning", reason: "WindowsStaticIPFailed", message: getErrorMessage(error) });
  }
}

interface Refresh {
  readonly vm: Vm;
  readonly times: PrepareTimes;
}

async function refreshLinux(context: StepContext, { vm, times }: Refresh, options: Abortable): Promise<void> {
  const { tracked, description, emit, metrics } = context;
  const { writer } = tracked;
  const script = postCloneScript({ vm });
  const hint = { [annotation.postCloneHint]: Buffer.from(script, "utf8").toString("base64") };
  if (!description.can.exec) return writer.write(hint, options);
  await writer.write({ [annotation.postCloneState]: "running", [annotation.postCloneErrors]: null }, options);
  const { failure, attempts } = await runUntilDone(context, { vm, script, times }, options);
  if (options.signal.aborted) return;
  const result = failure === undefined ? "ok" : "failed";
  metrics.postclone_total.inc({ kind: "exec", result });
  metrics.postclone_retry_attempts.observe({ result }, attempts);
  if (failure === undefined) {
    emit({ type: "Normal", reason: "PostCloneSucceeded", message: "the cloned guest has its own identity" });
    return writer.write({ [annotation.postCloneState]: "done" }, options);
  }
  const message = `the cloned guest was not given its identity: ${failure}`;
  emit({ type: "Warning", reason: "PostCloneExecExhausted", message });
  const failed = { [annotation.postCloneState]: "failed", [annotation.postCloneErrors]: failure };
  await writer.write({ ...hint, ...failed }, options);
}

/** Without `failure` once the script succeeded. The first attempt that fails is published. */
async function runUntilDone(
  { runtime, emit }: StepContext,
  { vm, script, times }: Refresh & { readonly script: string },
  options: Abortable,
): Promise<{ readonly failure?: string; readonly attempts: number }> {
  const deadline = performance.now() + times.forMs;
  let failure = "no attempt";
  let attempts = 0;
  while (performance.now() < deadline && !options.signal.aborted) {
    attempts += 1;
    try {
      const code = await runToEnd(runtime, { vmId: vm.id, argv: ["sh", "-c", `set -e; ${script}`] }, options);
      if (code === 0) return { attempts };
      failure = `the script ended with ${code}`;
    } catch (error) {
      if (isFault(error, "notFound")) return { failure: "the VM is gone", attempts };
      failure = getErrorMessage(error).slice(0, 500);
    }
    if (attempts === 1) emit({ type: "Warning", reason: "PostCloneExecAttemptFailed", message: failure });
    await sleep(times.everyMs, options);
  }
  return { failure, attempts };
}

/** Its address is found by the readiness checks in any case; here it is only counted and reported. */
async function awaitAddress(
  context: StepContext,
  { vm, woken, times }: Prepared & Refresh,
  options: Abortable,
): Promise<void> {
  const { runtime, description, metrics, emit, log } = context;
  if (vm.nics.length === 0) return;
  const began = performance.now();
  let renews = isWindows(context, vm) && description.can.exec;
  for (let tookMs = 0; tookMs < times.addressMs; tookMs = performance.now() - began) {
    if (await runtime.address(vm.id, options))
      return void (woken && metrics.wake_ip_wait_total.inc({ result: "ok" }));
    if (renews && tookMs >= times.renewAfterMs) {
      renews = false;
      metrics.wake_renew_nudge_total.inc();
      await runToEnd(runtime, { vmId: vm.id, argv: ["ipconfig", "/renew"] }, options).catch(
        (error: unknown) => log.debug({ error: getErrorMessage(error) }, "lease not renewed"),
      );
    }
    if (!(await sleep(pollMs, options))) return;
  }
  if (woken) metrics.wake_ip_wait_total.inc({ result: "timeout" });
  const reason = woken ? "WakeIPWaitTimeout" : "PostCloneIPWaitTimeout";
  emit({ type: "Warning", reason, message: `the guest has no address after ${times.addressMs} ms` });
}
