/** A local file into S3: in one request when small, else in parts, several at a time. */
import { open, type FileHandle } from "node:fs/promises";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompletedPart,
} from "@aws-sdk/client-s3";
import { Fault } from "@cocoon/core";
import type { S3Object } from "./s3-copy.ts";
import type { LocalFile } from "./storage.ts";

/** So many actions at a time, first come first served. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async use<T>(action: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      return await action();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

const minPartBytes = 16 * 1024 * 1024;
const maxParts = 10_000;
const parallelParts = 4;
/** Parts of all uploads together: each is held in memory. */
const partSlots = new Slots(8);

interface Part {
  readonly number: number;
  readonly start: number;
  readonly length: number;
}

/** Parts of equal size, as small as sensible and as few as allowed. */
export function planParts(sizeBytes: number): Part[] {
  const length = Math.max(minPartBytes, Math.ceil(sizeBytes / maxParts));
  const parts = Math.ceil(sizeBytes / length);
  return Array.from({ length: parts }, (_each, index) => ({
    number: index + 1,
    start: index * length,
    length: Math.min(length, sizeBytes - index * length),
  }));
}

export async function uploadFile(target: S3Object, { path, sizeBytes }: LocalFile): Promise<void> {
  const file = await open(path, "r");
  try {
    if (sizeBytes <= minPartBytes) await putWhole(target, file, sizeBytes);
    else await putInParts(target, file, planParts(sizeBytes));
  } finally {
    await file.close();
  }
}

async function putWhole({ client, object }: S3Object, file: FileHandle, sizeBytes: number): Promise<void> {
  await partSlots.use(async () => {
    const Body = await readPart(file, { number: 1, start: 0, length: sizeBytes });
    await client.send(new PutObjectCommand({ ...object, Body, ContentType: "application/octet-stream" }));
  });
}

async function putInParts(
  { client, object }: S3Object,
  file: FileHandle,
  parts: readonly Part[],
): Promise<void> {
  const { UploadId } = await client.send(
    new CreateMultipartUploadCommand({ ...object, ContentType: "application/octet-stream" }),
  );
  const waiting = [...parts];
  const done: CompletedPart[] = [];
  const sendParts = async () => {
    for (let part = waiting.shift(); part; part = waiting.shift()) {
      const { number: PartNumber } = part;
      const { ETag } = await partSlots.use(async () => {
        const Body = await readPart(file, part);
        return client.send(new UploadPartCommand({ ...object, UploadId, PartNumber, Body }));
      });
      done.push({ ETag, PartNumber });
    }
  };
  try {
    await Promise.all(Array.from({ length: parallelParts }, sendParts));
    const Parts = done.sort((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0));
    await client.send(
      new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } }),
    );
  } catch (error) {
    waiting.length = 0;
    await client.send(new AbortMultipartUploadCommand({ ...object, UploadId })).catch(() => undefined); // swept later
    throw error;
  }
}

async function readPart(file: FileHandle, { start, length }: Part): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  for (let filled = 0; filled < length;) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, start + filled);
    if (bytesRead === 0) throw new Fault("internal", "an upload is shorter than it was");
    filled += bytesRead;
  }
  return buffer;
}
