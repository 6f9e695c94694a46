/**
 * When we are root, QEMU is not: it runs as a user of its own, and owns no more than it must write. Its directory (it
 * makes sockets, logs and a state file there), the top layer of each disk, its firmware variables; and the memory file,
 * which QEMU before 8.2 opens for writing although it never writes it. All else it can only read.
 */
import { chmod, chown, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Fault } from "@cocoon/core";
import { machineFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "./context.ts";

/**
 * Lets QEMU's user pass through to its machine: our own directories are opened for passing (not for listing); those
 * above are not ours to open, so one that is closed is named.
 */
export async function openTheWay({
  settings,
  store,
}: Pick<QemuContext, "settings" | "store">): Promise<void> {
  const { runAs } = settings;
  if (!runAs) return;
  for (const directory of [store.layout.root, store.layout.vms]) await chmod(directory, 0o711);
  for (let directory = dirname(resolve(store.layout.root)); ; directory = dirname(directory)) {
    const { mode, uid, gid } = await stat(directory);
    const mayPass = uid === runAs.uid ? mode & 0o100 : gid === runAs.gid ? mode & 0o010 : mode & 0o001;
    if (mayPass === 0)
      throw new Fault(
        "forbidden",
        `QEMU is to run as user ${runAs.uid}, who cannot pass through ${directory}; allow it with: chmod o+x ${directory}`,
      );
    if (directory === dirname(directory)) return;
  }
}

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
