/** Files below /proc of a VM's process. */
import { readFile } from "node:fs/promises";
import { Fault } from "@cocoon/core";

/** Throws `conflict` when the process is gone. */
export async function readProcessFile(pid: number, name: string): Promise<string> {
  try {
    return await readFile(`/proc/${pid}/${name}`, "latin1");
  } catch (error) {
    throw new Fault("conflict", "VM not running: its process is gone", { cause: error });
  }
}
