/**
 * Saves a running machine into a directory. Everything that can be done while the guest runs is done before and after;
 * the intent is on disk before the guest is frozen, so that the next process unpauses it.
 *
 *   link what is immutable, copy the memory base, prepare disk layers │ freeze, save, switch layers, go on │ describe
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { copyFile, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { isFault, pathExists, type Abortable } from "@cocoon/core";
import { linkOrCopy } from "../store/immutable-files.ts";
import { withIntent } from "../store/intents.ts";
import { machineFile, vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import { prepareLayers, type LayerSwitch } from "../disk/disk-layers.ts";
import { assertLoaded } from "../lazy/finish-loading.ts";
import { savesPageByPage } from "../machine/machine.ts";
import { connectQmp, type QmpClient } from "../qmp/qmp.ts";
import { saveAsStream, saveByPages, type LiveMemory, type MemorySave } from "./save-memory.ts";
import { endMerges } from "../disk/merge-layers.ts";
import { oldestFormat, snapshotFormat, type SnapshotDescription } from "./snapshot-description.ts";

export interface SaveRequest extends Abortable {
  /** Empty directory that gets the files. */
  readonly directory: string;
  /** Whether a guest that ran goes on. */
  readonly resume: boolean;
  /** Its memory as it was copied a moment ago. */
  readonly live?: LiveMemory | undefined;
}

export interface SaveOutcome {
  /** The VM's record, already written: its disks have a new layer. */
  readonly record: VmRecord;
  readonly description: SnapshotDescription;
  readonly pausedMs: number;
  readonly dirtyBytes: number;
}

/** While the guest is frozen nothing is given up half way. */
const never = new AbortController().signal;

/** The caller holds the VM's lock and knows that it runs or is paused. */
export async function saveMachine(
  context: QemuContext,
  recorded: VmRecord,
  request: SaveRequest,
): Promise<SaveOutcome> {
  assertLoaded(recorded);
  const directory = context.store.getDirectory(recorded.id);
  const files = join(directory, recorded.files);
  using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal: request.signal });
  const record = await endMerges(context, { qmp, record: recorded, signal: request.signal });
  await linkImmutableFiles(files, record, request.directory);
  await using memory = await chooseForm(context, record, request);
  const layers = await prepareLayers(qmp, { context, record, directory }, request);
  const frozen = await withIntent(
    directory,
    {
      kind: "save",
      wasRunning: record.state === "running",
      disksBefore: record.disks,
      disksAfter: [...layers.disks],
    },
    () => freezeAndSave(context, record, { qmp, memory, layers, request }),
  );
  const described = { ...frozen.record, disks: record.disks };
  const description = await describeFiles(described, memory.form, request.directory);
  return { ...frozen, description };
}

async function chooseForm(context: QemuContext, record: VmRecord, request: SaveRequest): Promise<MemorySave> {
  if (!savesPageByPage(record.machine) || !context.settings.readPages)
    return saveAsStream(context, record, request);
  try {
    return await saveByPages(context, record, request);
  } catch (error) {
    if (!isFault(error, "forbidden")) throw error;
    context.log.warn(
      { vm: record.id },
      "not permitted to read the guest's pages; saving as a stream, which takes longer",
    );
    return saveAsStream(context, record, request);
  }
}

interface Frozen {
  readonly qmp: QmpClient;
  readonly memory: MemorySave;
  readonly layers: LayerSwitch;
  readonly request: SaveRequest;
}

async function freezeAndSave(
  context: QemuContext,
  record: VmRecord,
  { qmp, memory, layers, request }: Frozen,
): Promise<Omit<SaveOutcome, "description">> {
  const wasRunning = record.state === "running";
  const clock = pauseClock(qmp);
  let committed = false;
  let dirtyBytes = 0;
  const goesOn = () => wasRunning && (request.resume || !committed);
  try {
    await memory.freeze(qmp);
    dirtyBytes = await memory.finish(qmp);
    await copyVariables(join(context.store.getDirectory(record.id), record.files), record, request.directory);
    await layers.commit({ signal: never });
    committed = true;
  } finally {
    if (goesOn()) await qmp.execute("cont", { signal: never });
    if (!committed) await layers.cancel();
  }
  const pausedMs = clock.pausedMs();
  const saved: VmRecord = {
    ...record,
    state: goesOn() ? "running" : "paused",
    disks: [...layers.disks],
    updatedAt: context.now().toISOString(),
  };
  await context.store.write(saved);
  return { record: saved, pausedMs, dirtyBytes };
}

/** How long the guest stood still, from QEMU's own events: a stream is sent mostly before. */
function pauseClock(qmp: QmpClient): { pausedMs(): number } {
  let stoppedAt: number | undefined;
  qmp.onEvent(({ event }) => {
    if (event === "STOP") stoppedAt ??= performance.now();
  });
  return { pausedMs: () => (stoppedAt === undefined ? 0 : performance.now() - stoppedAt) };
}

/** What a machine starts from; it never changes. */
export function listBootFiles({ machine }: VmRecord): string[] {
  return [
    machineFile.firmware,
    ...(machine.kernel ? [machineFile.kernel] : []),
    ...(machine.kernel?.initrd ? [machineFile.initrd] : []),
  ];
}

/** The top layers too: they are what the guest writes now, and are frozen in a moment. */
export async function linkImmutableFiles(files: string, record: VmRecord, target: string): Promise<void> {
  const layers = record.disks.flatMap((disk) => disk.layers.map((layer) => layer.file));
  for (const file of new Set([...listBootFiles(record), ...layers]))
    await linkOrCopy(join(files, file), join(target, file));
  if (await pathExists(join(files, machineFile.workingSet)))
    await linkOrCopy(join(files, machineFile.workingSet), join(target, machineFile.workingSet));
}

async function copyVariables(files: string, { machine }: VmRecord, target: string): Promise<void> {
  if (machine.firmware !== "uefi") return;
  await copyFile(join(files, machineFile.firmwareVariables), join(target, machineFile.firmwareVariables));
}

/** Describes the files that lie in the directory; the disks are those of the record. */
export async function describeFiles(
  record: VmRecord,
  memory: SnapshotDescription["memory"],
  directory: string,
): Promise<SnapshotDescription> {
  const names = await readdir(directory);
  const sizes = await Promise.all(
    names.map(async (name) => [name, (await stat(join(directory, name))).size] as const),
  );
  const stateFile = memory === "stream" ? machineFile.stream : machineFile.deviceState;
  return {
    format: memory === "none" ? snapshotFormat : oldestFormat,
    hypervisor: "qemu",
    config: { ...record.config, labels: {} },
    machine: record.machine,
    disks: record.disks,
    nics: record.nics.map(({ guest }) => ({ mac: guest.mac })),
    imageBlobIds: record.imageBlobIds,
    hasAgent: record.hasAgent,
    memory,
    stateDigest: memory === "none" ? "" : await sha256(join(directory, stateFile)),
    files: Object.fromEntries(sizes),
  };
}

export async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return `sha256:${hash.digest("hex")}`;
}
