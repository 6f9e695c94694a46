/**
 * Ends the machines of this platform's nodes, as switching the host off would: each guest is asked to shut down, and
 * ended when it does not. Their disks stay, and the next `up` boots them again. Called once their nodes are stopped.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isFault, type Abortable } from "@cocoon/core";
import { openImageLibrary, openQemuRuntime, openUserNetwork, type VmRuntime } from "@cocoon/vm";
import { imageDirectory, nodeDirectory, nodeNumbers, type NodeNumber } from "./node-part.ts";

const graceMs = 15_000;

export interface StopMachinesOptions extends Abortable {
  /** Of the parts. */
  readonly directory: string;
  readonly path: string;
  readonly onProgress: (name: string, text: string) => void;
}

export async function stopMachines(options: StopMachinesOptions): Promise<void> {
  for (const number of nodeNumbers) {
    if (!existsSync(join(nodeDirectory(options, number), "qemu"))) continue;
    await using runtime = await tryOpen(options, number);
    if (runtime) await stopAll(runtime, options);
  }
}

/** Undefined where there is no QEMU any more: then there is no machine either. */
async function tryOpen(options: StopMachinesOptions, number: NodeNumber): Promise<VmRuntime | undefined> {
  const rootDirectory = nodeDirectory(options, number);
  try {
    const network = await openUserNetwork({ directory: join(rootDirectory, "net") });
    return await openQemuRuntime({
      rootDirectory,
      images: openImageLibrary({ directory: imageDirectory(options) }),
      networks: new Map([["user", network]]),
      path: options.path,
      recover: false,
      signal: options.signal,
    });
  } catch (error) {
    if (isFault(error, "unavailable")) return undefined;
    throw error;
  }
}

async function stopAll(runtime: VmRuntime, { signal, onProgress }: StopMachinesOptions): Promise<void> {
  const running = (await runtime.list({ signal })).filter((vm) => vm.pid !== undefined);
  await Promise.all(
    running.map(async (vm) => {
      onProgress(vm.name, "shutting down");
      await runtime.stop(vm.id, { timeoutMs: graceMs, signal });
      onProgress(vm.name, "stopped");
    }),
  );
}
