/**
 * Free loopback ports without races between parallel runs: a lock file keeps one ours between the moment it was found
 * and the moment the component listens, and as long as this process lives. They lie below those that the system gives
 * to outgoing connections: one of these could take the port while its component starts, or starts again.
 */
import { randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { Fault, findLockHolder, systemCode, tryLockFile, type FileLock } from "@cocoon/core";

export interface ReservedPort extends AsyncDisposable {
  readonly port: number;
}

const maximumTries = 200;
/** Clear of the ports of Kubernetes' Services too, which begin at 30000. */
const firstPort = 20_000;
const lastPort = 29_999;

export interface PortKeeping<N extends string> {
  /** Which component listens on each port. */
  readonly owners: Readonly<Record<N, string>>;
  readonly before: Readonly<Partial<Record<N, number>>>;
  readonly isRunning: (component: string) => Promise<boolean>;
  /** Ports that the user requested: refused when another program has them. */
  readonly insisted?: Readonly<Partial<Record<N, number>>>;
  /** Owns the reservations. */
  readonly stack: AsyncDisposableStack;
}

/** Ports stay what they were as long as they are free or held by our own component; else new ones are found. */
export async function keepPorts<N extends string>(keeping: PortKeeping<N>): Promise<Record<N, number>> {
  const { owners, before, insisted, isRunning, stack } = keeping;
  const ports: Partial<Record<N, number>> = {};
  for (const name of Object.keys(owners) as N[]) {
    const wanted = insisted?.[name] ?? before[name];
    const held = wanted !== undefined && wanted === before[name] && (await isRunning(owners[name]));
    if (held) {
      ports[name] = wanted;
      continue;
    }
    const kept = wanted === undefined ? undefined : await tryReservePort(wanted);
    if (!kept && insisted?.[name] !== undefined)
      throw new Fault(
        "unavailable",
        `port ${insisted[name]} is in use by another program; choose another with --port or leave it out`,
      );
    ports[name] = stack.use(kept ?? (await reservePort())).port;
  }
  return ports as Record<N, number>;
}

/** Not below TMPDIR: sessions of one user may have different ones, and they compete for the same ports. */
const lockDirectory = join("/tmp", `cocoon-ports-${userInfo().uid}`);

export async function reservePort(host = "127.0.0.1"): Promise<ReservedPort> {
  const last = Math.min(lastPort, (await firstOutgoingPort()) - 1);
  for (let attempt = 0; attempt < maximumTries; attempt += 1) {
    const hasRoom = last - firstPort >= 1_000;
    const port = hasRoom ? randomInt(firstPort, last + 1) : await findSystemPort(host);
    const reservedPort = await tryReservePort(port, host);
    if (reservedPort) return reservedPort;
  }
  throw new Fault("unavailable", `found no free port on ${host} in ${maximumTries} tries`);
}

/** The first of those that the system gives to outgoing connections. */
export async function firstOutgoingPort(): Promise<number> {
  const range = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "");
  return Number.parseInt(range, 10) || 32_768;
}

/** That port, when it is free and not reserved by another process. */
export async function tryReservePort(port: number, host = "127.0.0.1"): Promise<ReservedPort | undefined> {
  await mkdir(lockDirectory, { recursive: true });
  // Locked first: looking whether a port is free listens on it, in the way of a component that is about to start there.
  const lock = tryLockPort(port);
  if (!lock) return undefined;
  if (!(await isFree(port, host))) {
    releasePort(lock);
    return undefined;
  }
  let release: (() => void) | undefined = () => releasePort(lock);
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      release?.(); // once: later the file may be another process's
      release = undefined;
    },
  };
}

/** The file goes with its reservation, so a lock counts only while the file that was locked still has the name. */
function tryLockPort(port: number): FileLock | undefined {
  const path = join(lockDirectory, String(port));
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const lock = tryLockFile(path);
    if (!lock || isHeldByUs(path)) return lock;
    lock[Symbol.dispose]();
  }
  return undefined;
}

function isHeldByUs(path: string): boolean {
  try {
    return findLockHolder(path)?.pid === process.pid;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
}

function releasePort(lock: FileLock): void {
  rmSync(lock.path, { force: true });
  lock[Symbol.dispose]();
}

/** Removes the lock files that killed processes left behind. */
export async function removeStalePortLocks(): Promise<void> {
  const names = await readdir(lockDirectory).catch(() => []);
  for (const name of names.filter((each) => /^\d{1,5}$/.test(each))) {
    const lock = tryLockPort(Number(name));
    if (lock) releasePort(lock);
  }
}

function findSystemPort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, host, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

function isFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
