/**
 * What came from outside is checked before it is a snapshot: every file that it should have, with its size, the state's
 * digest, and disks that stand on nothing but each other. A qcow2 file may name any file of the host as its backing;
 * one that does would give the guest that file.
 */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { machineFile } from "../store/layout.ts";
import type { DiskRecord } from "../store/vm-record.ts";
import { readQcow2Head } from "../disk/qcow2.ts";
import { sha256 } from "./save.ts";
import type { SnapshotDescription } from "./snapshot-description.ts";

/** Throws `invalid`, naming the file. Files that the description does not know are removed. */
export async function checkImported(directory: string, description: SnapshotDescription): Promise<void> {
  const present = new Set(await readdir(directory));
  for (const [name, size] of Object.entries(description.files)) {
    if (!present.has(name)) throw broken(`${name} is missing`);
    const found = await stat(join(directory, name));
    if (found.size !== size) throw broken(`${name} has ${found.size} bytes instead of ${size}`);
  }
  for (const name of present) if (!Object.hasOwn(description.files, name)) await rm(join(directory, name));
  for (const disk of description.disks) await checkLayers(directory, disk, description);
  if (description.memory === "none") return;
  const stateFile = description.memory === "stream" ? machineFile.stream : machineFile.deviceState;
  if (!Object.hasOwn(description.files, stateFile)) throw broken(`${stateFile} is missing`);
  if ((await sha256(join(directory, stateFile))) !== description.stateDigest)
    throw broken(`${stateFile} is not what was saved`);
  if (
    description.memory === "pages" &&
    description.files[machineFile.memory] !== description.machine.memoryBytes
  )
    throw broken(`${machineFile.memory} does not have the size of the machine's memory`);
}

async function checkLayers(
  directory: string,
  disk: DiskRecord,
  { files }: SnapshotDescription,
): Promise<void> {
  for (const [index, layer] of disk.layers.entries()) {
    if (!Object.hasOwn(files, layer.file)) throw broken(`disk layer ${layer.file} is missing`);
    if (layer.format === "raw") {
      if (index > 0) throw broken(`disk layer ${layer.file} cannot stand on another one`);
      continue;
    }
    const head = await readQcow2Head(join(directory, layer.file));
    const below = disk.layers[index - 1];
    if (head.backingFile !== below?.file)
      throw broken(`disk layer ${layer.file} stands on another file than it should`);
    if (below && head.backingFormat !== undefined && head.backingFormat !== below.format)
      throw broken(`disk layer ${layer.file} takes its base for another format than it has`);
    if (head.hasExternalData) throw broken(`disk layer ${layer.file} keeps its data in another file`);
  }
}

function broken(why: string): Fault {
  return new Fault("invalid", `invalid snapshot archive: ${why}`);
}
