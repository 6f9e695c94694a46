/**
 * Locks between processes that the kernel releases when their holder dies, however it dies. Node has no flock, but
 * its SQLite takes the same kind of lock on a file: an open exclusive transaction is the lock, and nothing is written.
 *
 * Within one process the waiters of a lock queue up in order; between processes they ask again after a pause.
 */
import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { orAborted, sleep, systemCode, type Abortable } from "@cocoon/core";

export interface HeldLock extends Disposable {
  readonly path: string;
}

const firstPauseMs = 5;
const longestPauseMs = 100;
const sqliteBusy = 5;

/** The tail of the queue of waiters of each lock in this process. */
const queues = new Map<string, Promise<void>>();

/** Waits until the lock is ours. The directory must exist; the file is made when it is missing, and stays. */
export async function acquireLock(path: string, { signal }: Abortable): Promise<HeldLock> {
  const before = queues.get(path);
  const turn = Promise.withResolvers<void>();
  const tail = (before ?? Promise.resolve()).then(() => turn.promise);
  queues.set(path, tail);
  const leave = () => {
    turn.resolve();
    if (queues.get(path) === tail) queues.delete(path);
  };
  try {
    if (before) await orAborted(before, { signal });
    const database = await acquireAmongProcesses(path, signal);
    return heldLock(path, () => {
      database.close();
      leave();
    });
  } catch (error) {
    leave();
    throw error;
  }
}

/** The lock, or undefined when somebody has it, in this process or another. */
export function tryAcquireLock(path: string): HeldLock | undefined {
  if (queues.has(path)) return undefined;
  const database = tryOpenLocked(path);
  if (!database) return undefined;
  const turn = Promise.withResolvers<void>();
  queues.set(path, turn.promise);
  return heldLock(path, () => {
    database.close();
    turn.resolve();
    if (queues.get(path) === turn.promise) queues.delete(path);
  });
}

function heldLock(path: string, release: () => void): HeldLock {
  let held = true;
  return {
    path,
    [Symbol.dispose]: () => {
      if (held) release();
      held = false;
    },
  };
}

async function acquireAmongProcesses(path: string, signal: AbortSignal): Promise<DatabaseSync> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
    signal.throwIfAborted();
    const database = tryOpenLocked(path);
    if (database) return database;
    await sleep(pauseMs, { signal });
  }
}

function tryOpenLocked(path: string): DatabaseSync | undefined {
  makeFile(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("PRAGMA journal_mode = MEMORY"); // nothing is written, also not on a full disk
    database.exec("BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    if (isBusy(error)) return undefined;
    throw error;
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === sqliteBusy;
}

/**
 * SQLite would make the file readable by others. An existing one is not opened: closing any descriptor of a file
 * drops all locks that the process has on it.
 */
function makeFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
}
