/**
 * A lock between processes of one machine: a file that names its holder. A holder that died is recognised by its
 * process identity and replaced, so a crash never blocks the next run.
 */
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { sleep, type Abortable } from "./abort.ts";
import { Fault, systemCode } from "./fault.ts";
import { isAlive, processIdentitySchema, tryIdentify, type ProcessIdentity } from "./process-identity.ts";

export interface FileLock extends AsyncDisposable {
  readonly path: string;
}

export interface LockOptions extends Abortable {
  /** Called once when somebody else holds the lock and we begin to wait. */
  readonly onWait?: (holder: ProcessIdentity) => void;
}

/** Waits for the lock. */
export async function lockFile(path: string, options: LockOptions): Promise<FileLock> {
  let told = false;
  for (;;) {
    const outcome = await tryLockFile(path);
    if ("path" in outcome) return outcome;
    if (!told) options.onWait?.(outcome.holder);
    told = true;
    if (!(await sleep(100, options))) throw new Fault("timeout", `gave up waiting for ${path}`);
  }
}

/** Takes the lock, or says who has it. */
export async function tryLockFile(path: string): Promise<FileLock | { readonly holder: ProcessIdentity }> {
  const self = tryIdentify(process.pid);
  if (!self) throw new Fault("notSupported", "cannot read /proc: file locks need it");
  await mkdir(dirname(path), { recursive: true });
  for (;;) {
    if (await claim(path, self)) return { path, [Symbol.asyncDispose]: () => rm(path, { force: true }) };
    const holder = await readHolder(path);
    if (holder === "gone") continue;
    if (holder !== "unreadable" && isAlive(holder)) return { holder };
    await removeStale(path);
  }
}

/** A link either makes the whole file visible under its name or fails: nobody sees it half written. */
async function claim(path: string, self: ProcessIdentity): Promise<boolean> {
  const draft = `${path}.${randomBytes(6).toString("hex")}`;
  await writeFile(draft, JSON.stringify(self), { mode: 0o600 });
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function readHolder(path: string): Promise<ProcessIdentity | "gone" | "unreadable"> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return "gone";
    throw error;
  }
  try {
    return processIdentitySchema.parse(JSON.parse(text));
  } catch {
    return "unreadable"; // links are whole or absent, so this is not a claim of ours
  }
}

/** Renames before removing, so that of several who find the same dead holder only one removes that file. */
async function removeStale(path: string): Promise<void> {
  const aside = `${path}.stale.${randomBytes(6).toString("hex")}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return;
    throw error;
  }
  const holder = await readHolder(aside);
  if (typeof holder !== "string" && isAlive(holder)) {
    // Between the look and the rename a living process took the lock: give it back.
    await link(aside, path).catch(() => undefined);
  }
  await rm(aside, { force: true });
}
