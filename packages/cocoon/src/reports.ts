/** What commands share: how they say what they did, and how they leave a guest behind. */
import { Fault, getErrorMessage } from "@cocoon/core";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { writeVmJson } from "@cocoon/vm/wire";
import type { CommandSession } from "./session.ts";

/** How long a clone may take to learn who it is before we leave it to the next command that talks to it. */
const refreshMs = 60_000;

/** No process stays to send the guest its identity, so it is sent before the command ends. */
export async function refreshed(runtime: VmRuntime, vm: Vm, session: CommandSession): Promise<Vm> {
  if (vm.guest === "unknown") return vm;
  try {
    return await runtime.waitReady(vm.id, {
      signal: AbortSignal.any([session.signal, AbortSignal.timeout(refreshMs)]),
    });
  } catch (error) {
    session.signal.throwIfAborted();
    session.say(`warning: the guest has not taken its new identity yet: ${getErrorMessage(error)}`);
    return runtime.inspect(vm.id, session);
  }
}

export function report(session: CommandSession, vm: Vm, output: string | undefined): void {
  if (output === "json") session.printJson(writeVmJson(vm));
  else session.say(`VM ${vm.name} (${vm.id}): ${vm.state}`);
}

export function prefixed(error: unknown, prefix: string): never {
  if (error instanceof Fault)
    throw new Fault(error.code, `${prefix}${error.message}`, { cause: error.cause });
  throw error;
}
