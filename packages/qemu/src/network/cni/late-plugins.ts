/** Plugins that still run although the process that called them is gone. They carry the VM's id in their environment. */
import { readdir, readFile } from "node:fs/promises";
import { Fault, isAlive, signalProcess, sleep, tryIdentify, type ProcessIdentity } from "@cocoon/core";

const graceMs = 10_000;

/** Resolves when none is left, also none of those that they called. */
export async function endPlugins(vmId: string): Promise<void> {
  const signal = AbortSignal.timeout(graceMs);
  for (let found = await findPlugins(vmId); found.length > 0; found = await findPlugins(vmId)) {
    for (const plugin of found) signalProcess(plugin, "SIGKILL");
    if (!(await sleep(10, { signal })))
      throw new Fault(
        "timeout",
        `CNI plugin process ${found[0]?.pid} of VM ${vmId} does not end, not even by SIGKILL`,
      );
  }
}

async function findPlugins(vmId: string): Promise<ProcessIdentity[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return `\0${environment}`.includes(`\0CNI_CONTAINERID=${vmId}\0`)
        ? tryIdentify(Number(pid))
        : undefined;
    }),
  );
  return found.filter((identity) => identity !== undefined && isAlive(identity)) as ProcessIdentity[];
}
