/**
 * When we are root, QEMU is not: each machine runs as a user of its own, all of them in one group that has no other members.
 * A machine's user owns its directory (QEMU makes sockets, logs and a state file there), the top layer of each disk and the
 * firmware variables. What several machines share (lower layers, seeds, memory files) belongs to root and is open to the
 * group; a machine reaches only what is linked into its own directory, which no other user can enter. QEMU before 8.2 opens
 * the memory file for writing although it never writes it, so the group may.
 *
 * A machine keeps the user that it was made with. Machines made before there was a jail run as they did.
 */
import { chmod, chown, mkdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Fault, isFault, lockFile, getErrorMessage, type Abortable, type Logger } from "@cocoon/core";
import type { QemuContext, QemuSettings } from "../context.ts";
import { machineFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";

export type RunAs = NonNullable<QemuSettings["runAs"]>;

/** Far above users of people, services and containers. */
const defaultRunAs: RunAs = { uid: 2_000_000_000, gid: 2_000_000_000, count: 60_000 };

/**
 * The users for machines of that root directory: as root each machine gets one of its own, where these can reach the store;
 * where not, and without root, QEMU runs as we do. Such a QEMU listens on no port below 1024.
 */
export async function chooseVmUsers(rootDirectory: string, log: Logger): Promise<RunAs | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  try {
    await mkdir(rootDirectory, { recursive: true });
    await assertTraversable(defaultRunAs, rootDirectory);
    return defaultRunAs;
  } catch (error) {
    if (!isFault(error, "forbidden")) throw error;
    log.warn({ error: getErrorMessage(error) }, "QEMU runs as root: its own users cannot reach the VM store");
    return undefined;
  }
}

/**
 * Lets QEMU's users pass through to their machines: our own directories are opened for passing (not for listing); those
 * above are not ours to open, so one that is closed is named in a `forbidden`.
 */
export async function ensureTraversable(
  runAs: RunAs,
  { layout }: Pick<QemuContext["store"], "layout">,
): Promise<void> {
  await assertTraversable(runAs, dirname(layout.root));
  for (const directory of [layout.root, layout.vms, layout.shared]) await chmod(directory, 0o711);
}

async function assertTraversable(runAs: RunAs, rootDirectory: string): Promise<void> {
  for (let directory = resolve(rootDirectory); ; directory = dirname(directory)) {
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

/** A user that no other machine has; with more machines than users they begin to share. */
export async function allocateUid(context: QemuContext, options: Abortable): Promise<number | undefined> {
  const { runAs } = context.settings;
  if (!runAs) return undefined;
  using _lock = await lockFile(join(context.store.layout.root, "uids.lock"), options);
  const taken = new Set(
    (await context.store.list()).flatMap((vm) => (vm.kind === "record" ? [vm.record.uid] : [])),
  );
  const { uid, count = 1 } = runAs;
  for (let each = uid; each < uid + count; each += 1) if (!taken.has(each)) return each;
  return uid + (taken.size % count);
}

/** What the process of that machine runs as; undefined: as we do. */
export function findOwner(
  { settings: { runAs } }: Pick<QemuContext, "settings">,
  { uid }: Pick<VmRecord, "uid">,
): { readonly uid: number; readonly gid: number } | undefined {
  return runAs && uid !== undefined ? { uid, gid: runAs.gid } : undefined;
}

/** Gives QEMU what it needs before it starts. Nothing to do when it runs as ourselves. */
export async function handOver(context: QemuContext, record: VmRecord): Promise<void> {
  const owner = findOwner(context, record);
  if (!owner) return;
  const directory = context.store.getDirectory(record.id);
  const files = join(directory, record.files);
  await chown(directory, owner.uid, owner.gid);
  await chmod(files, 0o755); // inside a directory that no other user can enter
  await share(join(files, machineFile.memory), { gid: owner.gid, mode: 0o660 });
  if (record.machine.firmware === "uefi")
    await chown(join(files, machineFile.firmwareVariables), owner.uid, owner.gid);
  await handOverLayers(context, record, files);
}

/** The top layers become the machine's own; those below are only read from now on, by any machine that has them. */
export async function handOverLayers(
  context: QemuContext,
  record: Pick<VmRecord, "uid" | "disks">,
  files: string,
): Promise<void> {
  const owner = findOwner(context, record);
  if (!owner) return;
  for (const disk of record.disks) {
    const lower = disk.readOnly ? disk.layers : disk.layers.slice(0, -1);
    for (const layer of lower) await share(join(files, layer.file), { gid: owner.gid, mode: 0o640 });
    if (!disk.readOnly) await own(join(files, topFile(disk)), owner);
  }
}

function topFile({ layers }: DiskRecord): string {
  return layers.at(-1)?.file ?? "";
}

async function own(path: string, owner: { readonly uid: number; readonly gid: number }): Promise<void> {
  await chown(path, owner.uid, owner.gid);
  await chmod(path, 0o600);
}

/** Images are readable by all and belong to the image store: they stay as they are. */
async function share(
  path: string,
  { gid, mode }: { readonly gid: number; readonly mode: number },
): Promise<void> {
  const found = await stat(path);
  if ((found.mode & 0o004) !== 0 && mode === 0o640) return;
  await chown(path, process.getuid?.() ?? 0, gid);
  await chmod(path, mode);
}
