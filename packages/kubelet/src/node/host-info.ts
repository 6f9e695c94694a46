/** The host: what `kubectl get nodes -o wide` shows of it, and its identity together with the directory of its machines. */
import { createHash, randomUUID } from "node:crypto";
import { arch, hostname, release } from "node:os";
import { join } from "node:path";
import { tryReadFile, writeFileAtomically } from "@cocoon/core";

/** Reads or makes the id of the directory. The host's id is part of it: a directory may be copied with a host image. */
export async function ensureMachineId(directory: string): Promise<string> {
  const path = join(directory, "machine-id");
  let storeId = (await tryReadFile(path))?.trim();
  if (!storeId) {
    storeId = randomUUID();
    await writeFileAtomically(path, `${storeId}\n`);
  }
  const hostId = (await tryReadFile("/etc/machine-id"))?.trim() ?? "";
  const digest = createHash("sha256").update(`${hostId}/${storeId}`).digest("hex").slice(0, 16);
  return `${hostname()}_${digest}`;
}

export interface HostInfo {
  readonly architecture: string;
  readonly operatingSystem: "linux";
  readonly osImage: string;
  readonly kernelVersion: string;
}

export async function readHostInfo(): Promise<HostInfo> {
  return {
    architecture: arch() === "x64" ? "amd64" : arch(),
    operatingSystem: "linux",
    osImage: parseOsImage(await readOsRelease()),
    kernelVersion: release(),
  };
}

export function parseOsImage(osRelease: string): string {
  const value = /^PRETTY_NAME=(.*)$/m.exec(osRelease)?.[1]?.trim() ?? "";
  const text = /^(["'])(.*)\1$/.exec(value)?.[2] ?? value;
  return text === "" ? "Linux" : text;
}

async function readOsRelease(): Promise<string> {
  return (await tryReadFile("/etc/os-release")) ?? (await tryReadFile("/usr/lib/os-release")) ?? "";
}
