/** How a disk becomes an image: its blob and its record appear together, or not at all. */
import { copyFile, constants, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import type { BlobStore } from "./blob-store.ts";
import type { ImagePolicy } from "./image-policy.ts";
import type { ImageRecord, ImageRecords } from "./image-record.ts";

export interface ImageContext {
  readonly store: BlobStore;
  readonly records: ImageRecords;
  readonly now: () => Date;
  /** Largest disk, packed or not, that is taken in. */
  readonly maxDiskBytes: number;
  readonly policy?: ImagePolicy;
}

export interface NewImage
  extends
    Pick<ImageRecord, "name" | "type" | "os" | "boot">,
    Partial<Pick<ImageRecord, "program" | "source">> {
  /** Digest of what it was made from; absent = that of the disk file itself. */
  readonly id?: string;
  readonly disk: { readonly path: string; readonly format: "qcow2" | "raw"; readonly virtualBytes: number };
  /** Other blobs that belong to it, for its size. */
  readonly moreBytes?: number;
}

/** Moves the disk into the store; an older image of the same name is replaced. */
export async function commitImage(
  context: ImageContext,
  image: NewImage,
  options: Abortable,
): Promise<ImageRecord> {
  const { blocks } = await stat(image.disk.path);
  return context.store.commit([image.disk.path], options, async ([blob = ""]) => {
    const record: ImageRecord = {
      version: 1,
      id: image.id ?? `sha256:${blob}`,
      name: image.name,
      type: image.type,
      sizeBytes: blocks * 512 + (image.moreBytes ?? 0),
      createdAt: context.now().toISOString(),
      os: image.os,
      disk: { blob, format: image.disk.format, virtualBytes: image.disk.virtualBytes },
      boot: image.boot,
      ...(image.program === undefined ? {} : { program: image.program }),
      ...(image.source === undefined ? {} : { source: image.source }),
    };
    await context.records.write(record);
    return record;
  });
}

/** A copy that shares blocks where the file system can; the original stays as it is. */
export async function copyIn(path: string, work: string): Promise<string> {
  const copy = join(work, "copy");
  await copyFile(path, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return copy;
}
