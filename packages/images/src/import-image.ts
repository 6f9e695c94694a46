/** Makes an image of given bytes: a disk, whole or in parts, or the layers of a container image. */
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Fault, type Abortable } from "@cocoon/core";
import { checkDisk, limitBytes } from "./cloud/disk-file.ts";
import { qcow2Magic } from "./cloud/qcow2-check.ts";
import { decompress, startsWith } from "@cocoon/oci";
import { commitImage, type ImageContext } from "./image-files.ts";
import { noProgram, type ImageRecord } from "./image-record.ts";
import { defaultContainerLimits, makeContainerDisk } from "./container/container-disk.ts";

export async function importImage(
  context: ImageContext,
  { name, sources }: { readonly name: string; readonly sources: readonly Readable[] },
  options: Abortable,
): Promise<ImageRecord> {
  if (sources.length === 0) throw new Fault("invalid", `nothing was given to import as ${name}`);
  await using work = await context.store.openWork();
  const files: string[] = [];
  for (const [index, source] of sources.entries()) {
    const path = join(work.path, `source-${index}`);
    const limited = limitBytes(decompress(source), context.maxDiskBytes);
    await pipeline(limited, createWriteStream(path, { flags: "wx", mode: 0o600 }), options);
    files.push(path);
  }
  const request = { ...context, name, work: work.path, files };
  if (await isArchive(files[0] ?? "")) return await importLayers(request, options);
  return await importDisk(request, options);
}

interface Spooled extends ImageContext {
  readonly name: string;
  readonly work: string;
  readonly files: readonly string[];
}

async function isArchive(path: string): Promise<boolean> {
  await using file = await open(path, "r");
  const head = Buffer.alloc(512);
  const { bytesRead } = await file.read(head, 0, head.length, 0);
  if (bytesRead === 0) throw new Fault("invalid", "the image to import is empty");
  return !startsWith(head, qcow2Magic) && head.toString("latin1", 257, 262) === "ustar";
}

async function importDisk(context: Spooled, options: Abortable): Promise<ImageRecord> {
  const path = join(context.work, "disk");
  for (const file of context.files) {
    await pipeline(createReadStream(file), createWriteStream(path, { flags: "a", mode: 0o600 }), options);
  }
  const checks = { work: context.work, signal: options.signal, maxBytes: context.maxDiskBytes };
  const disk = await checkDisk(path, checks);
  return commitImage(
    context,
    { name: context.name, type: "cloudimg", os: "linux", boot: disk.firmware, disk },
    options,
  );
}

async function importLayers(context: Spooled, options: Abortable): Promise<ImageRecord> {
  const hash = createHash("sha256");
  const path = join(context.work, "disk");
  const virtualBytes = await makeContainerDisk({
    layers: context.files.map((file) => hashed(createReadStream(file), hash)),
    work: context.work,
    path,
    limits: { ...defaultContainerLimits, maxBytes: context.maxDiskBytes },
    signal: options.signal,
  });
  return commitImage(
    context,
    {
      name: context.name,
      id: `sha256:${hash.digest("hex")}`,
      type: "oci",
      os: "linux",
      boot: "bundle",
      disk: { path, format: "raw", virtualBytes },
      program: noProgram,
    },
    options,
  );
}

async function* hashed(
  source: AsyncIterable<Buffer>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    hash.update(chunk);
    yield chunk;
  }
}
