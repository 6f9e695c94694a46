/** What the nodes of this platform keep on disk, read and stopped without them. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isFault, type Abortable } from "@cocoon/core";
import { openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import type { VmRuntime } from "@cocoon/vm";
import { nodeNumbers, type NodeNumber } from "../network/topology.ts";
import { imageDirectory, nodeDirectory } from "./node-part.ts";

const graceMs = 15_000;

export interface NodesOptions extends Abortable {
  readonly directory: string;
  readonly path: string;
}

/** The runtimes of the nodes that have machines, one after the other. Nothing is recovered or removed. */
export async function forEachRuntime(
  options: NodesOptions,
  use: (runtime: VmRuntime, node: NodeNumber) => Promise<void>,
): Promise<void> {
  for (const number of nodeNumbers) {
    if (!existsSync(join(nodeDirectory(options, number), "qemu"))) continue;
    await using runtime = await tryOpen(options, number);
    if (runtime) await use(runtime, number);
  }
}

/** Undefined where there is no QEMU any more: then there is no machine either. */
async function tryOpen(options: NodesOptions, number: NodeNumber): Promise<VmRuntime | undefined> {
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

/**
 * Ends the machines as switching the host off would: each guest is requested to shut down, and ended when it does not.
 * Their disks stay, and the next `up` boots them again. Called once their nodes are stopped.
 */
export async function stopMachines(
  options: NodesOptions & { readonly onProgress: (name: string, text: string) => void },
): Promise<void> {
  const { signal, onProgress } = options;
  await forEachRuntime(options, async (runtime) => {
    const running = (await runtime.list({ signal })).filter((vm) => vm.pid !== undefined);
    await Promise.all(
      running.map(async (vm) => {
        onProgress(vm.name, "shutting down");
        await runtime.stop(vm.id, { timeoutMs: graceMs, signal });
        onProgress(vm.name, "stopped");
      }),
    );
  });
}
