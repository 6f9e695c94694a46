/**
 * Builds a directory beside its place and moves it there when it is complete: a directory that exists is
 * complete. What is left of a build that died is recognised by its name and removed by the next one.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Fault, isAlive, syncDirectory, systemCode, tryIdentify, pathExists } from "@cocoon/core";
import { assertFileName, envelopeName } from "./file-name.ts";
import type { OpenFile } from "./source.ts";

type NewFile = Pick<OpenFile, "name" | "size" | "mode">;

export interface DirectoryBuild extends AsyncDisposable {
  readonly path: string;
  /** Makes a file of full size without content. */
  add(file: NewFile): Promise<FileHandle>;
  addEnvelope(text: string): Promise<void>;
  /** Flushes everything and puts the directory into its place. */
  finish(): Promise<void>;
}

const partMark = ".part-";

/** `alreadyExists` when the place is taken. Disposing an unfinished build removes it. */
export async function startDirectory(target: string): Promise<DirectoryBuild> {
  const parent = dirname(target);
  await mkdir(parent, { recursive: true });
  if (await pathExists(target)) throw new Fault("alreadyExists", `${target} exists`);
  await removeAbandoned(target);
  const path = join(parent, `${partPrefix(target)}${process.pid}-${randomUUID()}`);
  await mkdir(path, { mode: 0o700 });
  const handles: FileHandle[] = [];
  let finished = false;
  const make = async (name: string, mode: number): Promise<FileHandle> => {
    const handle = await open(join(path, name), "wx+", 0o600);
    handles.push(handle);
    await handle.chmod(mode & 0o777); // nothing in a snapshot is ever run as another user
    return handle;
  };
  const close = async (): Promise<void> => {
    await Promise.all(handles.splice(0).map((each) => each.close()));
  };
  return {
    path,
    add: async (file) => {
      assertFileName(file.name);
      const handle = await make(file.name, file.mode);
      await handle.truncate(file.size);
      return handle;
    },
    addEnvelope: async (text) => {
      await (await make(envelopeName, 0o644)).writeFile(text);
    },
    finish: async () => {
      await Promise.all(handles.map((each) => each.sync()));
      await close();
      await syncDirectory(path);
      await moveInto(path, target);
      finished = true;
      await syncDirectory(parent);
    },
    [Symbol.asyncDispose]: async () => {
      await close();
      if (!finished) await rm(path, { recursive: true, force: true });
    },
  };
}

async function moveInto(path: string, target: string): Promise<void> {
  try {
    await rename(path, target);
  } catch (error) {
    if (["ENOTEMPTY", "EEXIST"].includes(systemCode(error) ?? ""))
      throw new Fault("alreadyExists", `${target} was created by another process meanwhile`, {
        cause: error,
      });
    throw error;
  }
}

function partPrefix(target: string): string {
  return `.${basename(target)}${partMark}`;
}

/** Half-built directories of processes that are gone. */
async function removeAbandoned(target: string): Promise<void> {
  const parent = dirname(target);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(partPrefix(target))) continue;
    const pid = Number(name.slice(partPrefix(target).length).split("-", 1)[0]);
    const owner = tryIdentify(pid);
    if (owner && isAlive(owner)) continue;
    await rm(join(parent, name), { recursive: true, force: true });
  }
}
