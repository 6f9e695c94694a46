/**
 * Makes a VM that goes on from a snapshot of the registry before its content is here. What QEMU reads at its start is
 * fetched first; memory and disks are read through a mount whose server fetches what is needed when it is needed.
 */
import { closeSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault, type Abortable } from "@cocoon/core";
import { ChunkStore, readLazyFile } from "@cocoon/oci";
import type { CloneOptions, RemoteCloneSpec } from "@cocoon/vm";
import type { QemuContext } from "../context.ts";
import { cloneBlueprint } from "../machine/blueprint.ts";
import { makeVm, running, startNew } from "../machine/create.ts";
import { addTopLayers } from "../machine/machine-files.ts";
import { checkImported } from "../snapshot/imported-files.ts";
import {
  assertFits,
  readSnapshotDescription,
  type SnapshotDescription,
} from "../snapshot/snapshot-description.ts";
import { machineFile, snapshotDescriptionFile, vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { openLazySource } from "./load-machine.ts";
import { findFuseProblem, mountFuse } from "./mount.ts";
import { awaitServing, requireLazy, startPageServer } from "./page-server-process.ts";

/** `notSupported` when this host, this snapshot or its format cannot: then it is pulled whole. */
export async function cloneLazily(
  context: QemuContext,
  { remote, ...spec }: RemoteCloneSpec,
  options: CloneOptions,
): Promise<VmRecord> {
  const problem = await findFuseProblem(options);
  if (problem !== "") throw new Fault("notSupported", problem);
  const description = await readDescription(context, remote, options);
  if (description.memory !== "pages")
    throw new Fault("notSupported", `the machine's memory was saved as ${description.memory}, not as pages`);
  assertFits(description, context.host);
  const origin = {
    kind: "snapshot",
    snapshotId: remote.snapshotId,
    snapshotName: remote.repository,
  } as const;
  const { storageBytes } = description.config;
  const grown = { ...spec, storageBytes: Math.max(spec.storageBytes ?? 0, storageBytes) };
  const blueprint = cloneBlueprint(context, grown, { directory: "", description, origin });
  return makeVm(context, blueprint, options, async (draft, directory) => {
    const lazy = { state: "loading" as const, ...remote, files: findLazyFiles(description) };
    const record = { ...draft, lazy: omitId(lazy) };
    await mkdir(join(directory, record.files), { mode: 0o700 });
    const mount = await mountFuse(join(directory, vmFile.lazy), options);
    try {
      return await startServed(context, { record, description, mount }, options);
    } finally {
      closeSync(mount);
    }
  });
}

function omitId<T extends { readonly snapshotId: string }>({
  snapshotId: _id,
  ...rest
}: T): Omit<T, "snapshotId"> {
  return rest;
}

async function readDescription(
  context: QemuContext,
  remote: RemoteCloneSpec["remote"],
  { signal }: Abortable,
): Promise<SnapshotDescription> {
  const { registry, store: settings } = requireLazy(context);
  using store = await ChunkStore.open(settings);
  const snapshot = await openLazySource({ registry, ...remote }, { store, signal });
  const text = await readLazyFile(snapshot, snapshotDescriptionFile, { store, signal });
  return readSnapshotDescription(text.toString("utf8"));
}

/** Memory, and the layers of disks that the guest writes; all else is small, and read whole at the start. */
function findLazyFiles({ disks }: SnapshotDescription): string[] {
  const layers = disks.flatMap((disk) => (disk.readOnly ? [] : disk.layers.map(({ file }) => file)));
  return [...new Set([machineFile.memory, ...layers])];
}

interface Served {
  readonly record: VmRecord;
  readonly description: SnapshotDescription;
  readonly mount: number;
}

async function startServed(
  context: QemuContext,
  { record, description, mount }: Served,
  options: CloneOptions,
): Promise<VmRecord> {
  const directory = context.store.getDirectory(record.id);
  const files = join(directory, record.files);
  const server = await startPageServer(context, record, { fd: mount, resumed: false });
  await awaitServing(directory, server, options);
  await checkImported(files, description);
  const { storageBytes } = record.config;
  const disks = await addTopLayers(files, { disks: description.disks, storageBytes });
  const complete: VmRecord = { ...record, disks: [...disks], firstBooted: true };
  const process = await startNew(context, complete, { ...options, start: "deviceState", mount });
  return running(context, complete, { process, from: "snapshot" });
}
