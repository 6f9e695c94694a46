/**
 * When we are root, QEMU is not: it runs as a user of its own, and owns no more than it must write. Its directory (it
 * makes sockets, logs and a state file there), the top layer of each disk, its firmware variables; and the memory file,
 * which QEMU before 8.2 opens for writing although it never writes it. All else it can only read.
 */
import { chmod, chown } from "node:fs/promises";
import { join } from "node:path";
import { machineFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "./context.ts";

/** Gives QEMU what it needs before it starts. Nothing to do when it runs as ourselves. */
export async function handOver(context: QemuContext, record: VmRecord): Promise<void> {
  const { runAs } = context.settings;
  if (!runAs) return;
  const directory = context.store.directoryOf(record.id);
  const files = join(directory, record.files);
  const own = [
    machineFile.memory,
    ...(record.machine.firmware === "uefi" ? [machineFile.firmwareVariables] : []),
  ];
  const readOnly = record.disks.flatMap((disk) =>
    disk.readOnly ? disk.layers.map((layer) => layer.file) : [],
  );
  await chown(directory, runAs.uid, runAs.gid);
  await chmod(files, 0o755); // inside a directory that nobody else can enter
  for (const file of [...own, ...readOnly]) await chown(join(files, file), runAs.uid, runAs.gid);
  await handOverLayers(context, files, record.disks);
}

/** The layers below were handed over when they were on top; those of an image anybody may read. */
export async function handOverLayers(
  context: QemuContext,
  files: string,
  disks: readonly DiskRecord[],
): Promise<void> {
  const { runAs } = context.settings;
  if (!runAs) return;
  for (const disk of disks) {
    if (disk.readOnly) continue;
    const [base, ...above] = disk.layers;
    for (const layer of above) await chown(join(files, layer.file), runAs.uid, runAs.gid);
    if (base && above.length === 0) await chown(join(files, base.file), runAs.uid, runAs.gid);
  }
}
