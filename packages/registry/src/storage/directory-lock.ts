/** One server per directory: two would not know of each other's leases. The lock names its owner, so a dead one's is void. */
import { readFile, rm, writeFile } from "node:fs/promises";
import {
  Fault,
  isAlive,
  processIdentitySchema,
  systemCode,
  tryIdentify,
  type ProcessIdentity,
} from "@cocoon/core";

/** Throws `conflict` when a living process holds it. */
export async function lockDirectory(path: string): Promise<AsyncDisposable> {
  const own = tryIdentify(process.pid);
  for (let attempt = 0; attempt < 10; attempt += 1) {
    try {
      await writeFile(path, JSON.stringify(own), { flag: "wx", mode: 0o600 });
      return { [Symbol.asyncDispose]: () => rm(path, { force: true }) };
    } catch (error) {
      if (systemCode(error) !== "EEXIST") throw error;
    }
    const owner = await readOwner(path);
    if (owner && isAlive(owner))
      throw new Fault("conflict", `${path}: the directory is in use by process ${owner.pid}; stop it first`);
    await rm(path, { force: true }); // left by a process that was killed
  }
  throw new Fault("conflict", `${path}: others take the directory at the same time`);
}

async function readOwner(path: string): Promise<ProcessIdentity | undefined> {
  try {
    const parsed = processIdentitySchema.safeParse(JSON.parse(await readFile(path, "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined; // gone meanwhile, or cut off by a power cut: nobody who lives
  }
}
