/**
 * Serves files that are all here, until the mount goes: QEMU has its memory mapped through it. Needs neither registry nor index, so
 * the process that loaded the files becomes a new program, which holds a fraction of the memory.
 */
import { fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { machineFile } from "../store/layout.ts";
import { FuseServer, type ServedFile } from "./fuse-server.ts";
import type { LocalFiles } from "./page-server-config.ts";

/** Of the mount: one of those that a new program of the same process inherits. */
export const mountDescriptor = 0;
export const settingsDescriptor = 3;
const localFlag = "--local";
/** Reads block threads; content is stored in others. */
const threads = "8";

/** Resolves when the mount is gone. */
export async function serveLocal(
  { directory, lazy, owner }: LocalFiles,
  { resend }: { readonly resend: boolean },
): Promise<void> {
  const files = lazy.map((name) => {
    const fd = openSync(join(directory, name), "r");
    return describeServed({ name, fd, size: fstatSync(fd).size });
  });
  const server = new FuseServer(mountDescriptor, {
    files,
    owner,
    chunkBytes: 64 * 1024,
    has: () => true,
    ensure: () => Promise.resolve(),
    onRead: () => undefined,
    resend,
  });
  server.start();
  await server.ended;
}

export function describeServed({ name, fd, size }: Pick<ServedFile, "name" | "fd" | "size">): ServedFile {
  return { name, fd, size, inode: fstatSync(fd, { bigint: true }).ino, mapped: name === machineFile.memory };
}

/**
 * The same process, under its identity, as a new program. The kernel sends requests again that were taken and not answered. No
 * other thread may write to the mount meanwhile: it could wait for a page that only this process can give.
 */
export function becomeLocalServer({ directory, lazy, owner, program }: LocalFiles): void {
  const [command, ...args] = program;
  // The files are closed: this process cannot continue, and vk-cocoon starts another one.
  if (command === undefined || !process.execve) throw new Fault("internal", "this Node has no execve");
  const files: LocalFiles = { directory, lazy, owner, program };
  const env = { ...smallProcess, UV_THREADPOOL_SIZE: threads };
  process.execve(command, [command, ...args, localFlag, JSON.stringify(files)], env);
}

/** Environment of a process that should hold little: few pools of memory, and a small nursery. */
export const smallProcess = { MALLOC_ARENA_MAX: "2", NODE_OPTIONS: "--max-semi-space-size=2" } as const;
