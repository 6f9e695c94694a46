/**
 * VMs that a `vm rm` of this host is removing. Clients take a DELETED event for an accident unless their own `vm rm` has returned
 * before, so the event stream waits for the end of the process that removes the VM.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { rmSync } from "node:fs";
import { join } from "node:path";
import {
  isAlive,
  processIdentitySchema,
  sleep,
  tryIdentify,
  tryReadJson,
  type Abortable,
} from "@cocoon/core";

function markerPath(rootDir: string, id: string): string {
  return join(rootDir, "removing", id);
}

/** Until this process ends, however it ends. */
export async function announceRemoval(rootDir: string, id: string): Promise<void> {
  const path = markerPath(rootDir, id);
  await mkdir(join(rootDir, "removing"), { recursive: true, mode: 0o700 });
  await writeFile(path, JSON.stringify(tryIdentify(process.pid)), { mode: 0o600 });
  process.once("exit", () => rmSync(path, { force: true }));
}

/** Resolves when no `vm rm` removes that VM any more. */
export async function awaitRemoval(rootDir: string, id: string, { signal }: Abortable): Promise<void> {
  while (!signal.aborted && (await isBeingRemoved(rootDir, id))) await sleep(pollMs, { signal });
}

const pollMs = 20;

async function isBeingRemoved(rootDir: string, id: string): Promise<boolean> {
  const path = markerPath(rootDir, id);
  const remover = await tryReadJson(path, processIdentitySchema); // none while it is half written
  if (remover && isAlive(remover)) return true;
  if (remover) await rm(path, { force: true }); // it was killed
  return false;
}
