/** Requests of callers, checked and completed: every mistake is one clear error before anything is made. */
import { Fault } from "@cocoon/core";
import type { DataDisk, NetworkSpec, RunSpec } from "@cocoon/vm";
import { assertVmName } from "@cocoon/vm/engine";
import { maxDisks, maxNics } from "../process/arguments.ts";
import type { QemuSettings } from "../context.ts";

const mebibyte = 1024 * 1024;

export interface Sizes {
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly storageBytes: number;
}

export function checkRun(spec: RunSpec, settings: QemuSettings): Sizes {
  assertVmName(spec.name);
  checkNetworkSpec(spec);
  checkDataDisks(spec.dataDisks ?? []);
  return checkSizes(
    {
      cpus: spec.cpus ?? settings.defaults.cpus,
      memoryBytes: spec.memoryBytes ?? settings.defaults.memoryBytes,
      storageBytes: spec.storageBytes ?? settings.defaults.storageBytes,
    },
    settings,
  );
}

/** Smallest memory and root disk of a machine. */
export const minimumBytes = 64 * mebibyte;

function checkSizes(sizes: Sizes, { hostCpus }: QemuSettings): Sizes {
  if (!Number.isInteger(sizes.cpus) || sizes.cpus < 1) throw invalid("--cpu must be at least 1");
  if (sizes.cpus > hostCpus) throw invalid(`requested ${sizes.cpus} vCPUs exceeds host cores (${hostCpus})`);
  if (!(sizes.memoryBytes >= minimumBytes)) throw invalid("--memory must be at least 64M");
  if (!(sizes.storageBytes >= minimumBytes)) throw invalid("--storage must be at least 64M");
  return {
    cpus: sizes.cpus,
    memoryBytes: Math.ceil(sizes.memoryBytes / mebibyte) * mebibyte,
    storageBytes: Math.ceil(sizes.storageBytes / 512) * 512,
  };
}

export function checkNetworkSpec(spec: NetworkSpec): void {
  const nics = spec.nics ?? 1;
  if (!Number.isInteger(nics) || nics < 0 || nics > maxNics)
    throw invalid(`nics must be between 0 and ${maxNics}, not ${nics}`);
  for (const { guestPort } of spec.ports ?? [])
    if (!Number.isInteger(guestPort) || guestPort < 1 || guestPort > 65_535)
      throw invalid(`port ${guestPort} is not a port`);
}

const diskNamePattern = /^[a-z][a-z0-9_-]{0,19}$/;
const smallestDiskBytes = 16 * mebibyte;
/** The root and the seed disk have slots of their own. */
const maxDataDisks = maxDisks - 2;

function checkDataDisks(disks: readonly DataDisk[]): void {
  if (disks.length > maxDataDisks) throw invalid(`at most ${maxDataDisks} data disks`);
  const names = new Set<string>();
  for (const disk of disks) {
    if (!diskNamePattern.test(disk.name) || disk.name.startsWith("cocoon-"))
      throw invalid(
        `data disk name "${disk.name}": up to 20 of a-z, 0-9, "_", "-", a letter first, not "cocoon-…"`,
      );
    if (names.has(disk.name)) throw invalid(`data disk name "${disk.name}" is used twice`);
    if (disk.sizeBytes < smallestDiskBytes || disk.sizeBytes % 512 !== 0)
      throw invalid(`data disk "${disk.name}" must have at least 16M, in whole sectors`);
    if (disk.fsType === "none" && disk.mountPoint)
      throw invalid(`data disk "${disk.name}" has no file system and cannot be mounted`);
    names.add(disk.name);
  }
}

function invalid(message: string): Fault {
  return new Fault("invalid", message);
}
