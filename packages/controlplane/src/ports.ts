/**
 * Free loopback ports without races between parallel runs: the system names a free one, a lock file keeps it ours
 * between the moment it was found and the moment the component listens, and as long as this process lives.
 */
import { createServer, type AddressInfo } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { Fault, tryLockFile, type FileLock } from "@cocoon/core";

export interface ReservedPort extends AsyncDisposable {
  readonly port: number;
}

const maximumTries = 200;

function lockDirectory(): string {
  return join(tmpdir(), `cocoon-ports-${userInfo().uid}`);
}

export async function reservePort(host = "127.0.0.1"): Promise<ReservedPort> {
  for (let attempt = 0; attempt < maximumTries; attempt += 1) {
    const port = await findFreePort(host);
    const lock = await tryLockFile(join(lockDirectory(), String(port)));
    if ("path" in lock) return reserved(port, lock);
  }
  throw new Fault("unavailable", `found no free port on ${host} in ${maximumTries} tries`);
}

/** That port, when it is free and nobody else has reserved it. */
export async function tryReservePort(port: number, host = "127.0.0.1"): Promise<ReservedPort | undefined> {
  if (!(await isFree(port, host))) return undefined;
  const lock = await tryLockFile(join(lockDirectory(), String(port)));
  return "path" in lock ? reserved(port, lock) : undefined;
}

function reserved(port: number, lock: FileLock): ReservedPort {
  return { port, [Symbol.asyncDispose]: () => lock[Symbol.asyncDispose]() };
}

function findFreePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, host, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

export function isFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
