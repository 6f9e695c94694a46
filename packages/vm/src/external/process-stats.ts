/** What a VM uses, from its hypervisor's process and its own disks. */
import { stat } from "node:fs/promises";
import { Fault } from "@cocoon/core";
import { readProcessFile } from "../host/index.ts";
import type { Vm, VmStats } from "../vm.ts";

/** `conflict` when the VM does not run. */
export async function readProcessStats({ name, pid, disks }: Vm): Promise<VmStats> {
  if (pid === undefined) throw new Fault("conflict", `VM not running: ${name}`);
  const [text, status] = await Promise.all([readProcessFile(pid, "stat"), readProcessFile(pid, "status")]);
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const own = disks.filter((disk) => !disk.readOnly);
  const sizes = await Promise.all(own.map((disk) => stat(disk.path).catch(() => ({ size: 0, blocks: 0 }))));
  return {
    at: new Date().toISOString(),
    cpu: { usageNanos: (Number(fields[11]) + Number(fields[12])) * 1e7 },
    memory: { residentBytes: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024 },
    disk: {
      allocatedBytes: sizes.reduce((sum, { blocks }) => sum + blocks * 512, 0),
      apparentBytes: sizes.reduce((sum, { size }) => sum + size, 0),
    },
  };
}
