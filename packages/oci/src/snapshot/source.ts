/** The files that a snapshot consists of, on disk and open for reading. */
import { open, readdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { Fault, toFault } from "@cocoon/core";
import { assertFileName, envelopeName } from "./file-name.ts";
import { assertExtents, type Extent } from "./sparse-map.ts";

export interface SourceFile {
  /** Name in the snapshot. */
  readonly name: string;
  readonly path: string;
  /** Permission bits; default: those of the file. */
  readonly mode?: number;
  /** Where the file has data, in order; everywhere else it reads as zero. Default: it is read to find out. */
  readonly dataRanges?: readonly Extent[];
}

/** Every regular file of a directory, in the order of their names; the envelope of an archive is none of them. */
export async function listSourceFiles(directory: string): Promise<SourceFile[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries
    .filter((each) => each.isFile() && each.name !== envelopeName)
    .map((each) => ({ name: each.name, path: join(directory, each.name) }))
    .sort(byName);
}

/** By the bytes of the names, as archives order them. */
function byName(a: { readonly name: string }, b: { readonly name: string }): number {
  return Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
}

export interface OpenFile {
  readonly name: string;
  readonly fd: number;
  readonly size: number;
  readonly mode: number;
  readonly data: readonly Extent[];
}

export interface OpenSource extends AsyncDisposable {
  readonly files: readonly OpenFile[];
  /** Throws `conflict` when a file was written to since it was opened. */
  assertUnchanged(): Promise<void>;
}

/** Opens all files at once, in the order of their names, so that what is read is one state even when names are replaced meanwhile. */
export async function openSource(files: readonly SourceFile[]): Promise<OpenSource> {
  if (new Set(files.map((each) => each.name)).size !== files.length)
    throw new Fault("invalid", "two files of the snapshot have the same name");
  const handles: FileHandle[] = [];
  const stamps: string[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(handles.splice(0).map((each) => each.close()));
  };
  try {
    const opened: OpenFile[] = [];
    for (const file of files.toSorted(byName)) {
      assertFileName(file.name);
      const handle = await open(file.path, "r");
      handles.push(handle);
      stamps.push(await readFileStamp(handle));
      const found = await handle.stat();
      if (!found.isFile()) throw new Fault("invalid", `${file.path} is not a regular file`);
      const whole = found.size === 0 ? [] : [{ offset: 0, length: found.size }];
      if (file.dataRanges) assertExtents(file.dataRanges, found.size, file.name);
      const mode = file.mode ?? found.mode & 0o777;
      opened.push({ name: file.name, fd: handle.fd, size: found.size, mode, data: file.dataRanges ?? whole });
    }
    const assertUnchanged = async (): Promise<void> => {
      for (const [index, handle] of handles.entries())
        if ((await readFileStamp(handle)) !== stamps[index])
          throw new Fault("conflict", `${opened[index]?.name} was written to while it was read`);
    };
    return { files: opened, assertUnchanged, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw toFault(error, "opening the snapshot's files");
  }
}

/** Changes with every write. Links and permissions may change meanwhile: the content does not. */
async function readFileStamp(handle: FileHandle): Promise<string> {
  const { size, mtimeNs } = await handle.stat({ bigint: true });
  return `${size} ${mtimeNs}`;
}
