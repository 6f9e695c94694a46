/**
 * Locks between processes that the kernel releases when their holder dies: an open exclusive transaction of SQLite, since Node
 * has no flock. The file stays after a release: removing it would let two processes lock two files of one name.
 */
import { closeSync, openSync, readFileSync, statSync, truncateSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { orAborted, sleep, type Abortable } from "./abort.ts";
import { systemCode } from "./fault.ts";
import { tryIdentify, type ProcessIdentity } from "./process-identity.ts";

export interface FileLock extends Disposable, AsyncDisposable {
  readonly path: string;
}

export interface LockOptions extends Abortable {
  /** Called once when another process holds the lock and the wait begins; undefined when it released it meanwhile. */
  readonly onWait?: (holder: ProcessIdentity | undefined) => void;
}

const firstPauseMs = 5;
const maxPauseMs = 100;
const sqliteBusy = 5;
const sqliteNotADatabase = 26;

const queues = new Map<string, Promise<void>>();

/** Waits for the lock. The directory must exist; the file is made when it is missing. */
export async function lockFile(path: string, options: LockOptions): Promise<FileLock> {
  const before = queues.get(path);
  const turn = Promise.withResolvers<void>();
  const tail = (before ?? Promise.resolve()).then(() => turn.promise);
  queues.set(path, tail);
  const leave = () => {
    turn.resolve();
    if (queues.get(path) === tail) queues.delete(path);
  };
  try {
    if (before) await orAborted(before, options);
    const database = await waitForProcesses(path, options);
    return createLock(path, () => {
      database.close();
      leave();
    });
  } catch (error) {
    leave();
    throw error;
  }
}

/** The lock, or undefined when it is held, by this process or another. */
export function tryLockFile(path: string): FileLock | undefined {
  if (queues.has(path)) return undefined;
  const database = tryOpenLocked(path);
  if (!database) return undefined;
  const turn = Promise.withResolvers<void>();
  queues.set(path, turn.promise);
  return createLock(path, () => {
    database.close();
    turn.resolve();
    if (queues.get(path) === turn.promise) queues.delete(path);
  });
}

export function findLockHolder(path: string): ProcessIdentity | undefined {
  const { ino } = statSync(path);
  // id: POSIX ADVISORY WRITE <pid> <major>:<minor>:<inode> <first> <last>; the device numbers of some file systems differ from stat's
  for (const line of readFileSync("/proc/locks", "utf8").split("\n")) {
    const [, , , mode, pid, file] = line.split(/\s+/);
    if (mode === "WRITE" && file?.split(":")[2] === String(ino)) return tryIdentify(Number(pid));
  }
  return undefined;
}

function createLock(path: string, release: () => void): FileLock {
  let held = true;
  const dispose = () => {
    if (held) release();
    held = false;
  };
  return {
    path,
    [Symbol.dispose]: dispose,
    [Symbol.asyncDispose]: () => Promise.resolve(dispose()),
  };
}

async function waitForProcesses(path: string, { signal, onWait }: LockOptions): Promise<DatabaseSync> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(maxPauseMs, pauseMs * 2)) {
    signal.throwIfAborted();
    const database = tryOpenLocked(path);
    if (database) return database;
    if (pauseMs === firstPauseMs) onWait?.(findLockHolder(path));
    await sleep(pauseMs, { signal });
  }
}

function tryOpenLocked(path: string): DatabaseSync | undefined {
  createFile(path);
  // Loaded here: most programs that import this package never lock a file.
  const sqlite = process.getBuiltinModule("node:sqlite");
  const database = new sqlite.DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("PRAGMA journal_mode = MEMORY"); // nothing is written, so a full disk does not matter
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    const code = error instanceof Error && "errcode" in error ? error.errcode : undefined;
    if (code === sqliteBusy) return undefined;
    if (code !== sqliteNotADatabase) throw error;
    truncateSync(path); // the record of a holder, written by an older version or damaged
    return tryOpenLocked(path);
  }
}

/** An existing file is not opened: closing any descriptor of it drops all locks that the process has on it. */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
}
