/** Images out of a registry: container images become disks, cloud-image artifacts are put together from their parts. */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { isDiskType } from "@cocoon/contract";
import { Fault, isFault, toFault, type Abortable } from "@cocoon/core";
import type { PullOptions } from "@cocoon/vm";
import { checkDisk } from "../cloud/disk-file.ts";
import { commitImage, type ImageContext } from "../image-files.ts";
import type { ImageRecord } from "../image-record.ts";
import type { ImageSource, SourceBlob, SourceImage } from "../image-source.ts";
import { defaultContainerLimits, makeContainerDisk } from "./container-disk.ts";
import { readProgram } from "./image-config.ts";

export async function pullFromRegistry(
  context: ImageContext & { readonly source: ImageSource },
  ref: string,
  options: PullOptions,
): Promise<ImageRecord> {
  const name = context.source.normalise(ref);
  const lockName = `pull-${createHash("sha256").update(name).digest("hex").slice(0, 32)}`;
  await using _lock = await context.store.lock(lockName, options);
  const known = await context.records.tryFind([name]);
  const found = await openOrKeep(context.source, { name, known }, options);
  if (known && (!found || (found.digest === known.id && !options.force))) return known;
  if (!found) throw new Fault("internal", `${name} is neither here nor there`);
  await using work = await context.store.openWork();
  const request = { ...context, name, work: work.path };
  switch (found.kind) {
    case "container":
      return await pullContainer(request, found, options);
    case "cloudImage":
      return await pullCloudImage(request, found, options);
    case "other":
      throw new Fault("invalid", `${name} is no image that can be run: it is ${found.what}`);
  }
  throw new Fault("internal", "unknown kind of image");
}

/** Undefined: the registry does not answer, and there is a copy here that will do. */
async function openOrKeep(
  source: ImageSource,
  { name, known }: { readonly name: string; readonly known: ImageRecord | undefined },
  options: PullOptions,
): Promise<SourceImage | undefined> {
  try {
    return await source.open(name, options);
  } catch (error) {
    options.signal.throwIfAborted();
    const mayKeep = known && !options.force && isFault(error) && error.traits.retry;
    if (!mayKeep) throw toFault(error, `image ${name}`);
    return undefined;
  }
}

interface PullContext extends ImageContext {
  readonly name: string;
  readonly work: string;
}

async function pullContainer(
  context: PullContext,
  found: Extract<SourceImage, { kind: "container" }>,
  options: PullOptions,
): Promise<ImageRecord> {
  const { signal } = options;
  const report = progress(found.layers, options);
  const path = join(context.work, "disk");
  const virtualBytes = await makeContainerDisk({
    layers: found.layers.map((layer) => report(readVerified(layer, { signal }))),
    work: context.work,
    path,
    limits: { ...defaultContainerLimits, maxBytes: context.maxDiskBytes },
    signal,
  });
  return commitImage(
    context,
    {
      name: context.name,
      id: found.digest,
      type: "oci",
      os: "linux",
      boot: "bundle",
      disk: { path, format: "raw", virtualBytes },
      program: readProgram(found.config),
    },
    options,
  );
}

/** A disk may be whole or in parts; titles put parts in order, and layers of other kinds are not ours. */
async function pullCloudImage(
  context: PullContext,
  found: Extract<SourceImage, { kind: "cloudImage" }>,
  options: PullOptions,
): Promise<ImageRecord> {
  const { signal } = options;
  const parts = found.layers
    .filter(({ mediaType }) => isDiskType(mediaType))
    .sort((a, b) => Buffer.compare(Buffer.from(a.title ?? ""), Buffer.from(b.title ?? "")));
  if (parts.length === 0) throw new Fault("invalid", `${context.name} is a cloud image without a disk`);
  const total = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  if (total > context.maxDiskBytes) {
    throw new Fault(
      "tooLarge",
      `${context.name} has ${total} bytes, more than the ${context.maxDiskBytes} allowed`,
    );
  }
  const path = join(context.work, "disk");
  const report = progress(parts, options);
  for (const part of parts) {
    const output = createWriteStream(path, { flags: "a", mode: 0o600 });
    await pipeline(report(readVerified(part, { signal })), output, { signal });
  }
  const disk = await checkDisk(path, { work: context.work, signal, maxBytes: context.maxDiskBytes });
  const os = found.windows ? "windows" : "linux";
  return commitImage(
    context,
    { name: context.name, id: found.digest, type: "cloudimg", os, boot: disk.firmware, disk },
    options,
  );
}

function progress(
  blobs: readonly SourceBlob[],
  { onProgress }: PullOptions,
): (bytes: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  const totalBytes = blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0);
  let doneBytes = 0;
  return async function* report(bytes) {
    for await (const chunk of bytes) {
      doneBytes += chunk.length;
      onProgress?.({ doneBytes, totalBytes });
      yield chunk;
    }
  };
}

/** Reads a blob as the bytes it was promised to be: exact size, exact digest, or a fault and never a quiet difference. */
async function* readVerified(blob: SourceBlob, { signal }: Abortable): AsyncGenerator<Buffer> {
  const [algorithm = "", expected = ""] = blob.digest.split(":");
  if (algorithm !== "sha256" && algorithm !== "sha512") {
    throw new Fault("notSupported", `the digest ${blob.digest} is neither sha256 nor sha512`);
  }
  const hash = createHash(algorithm);
  let bytes = 0;
  const stream = await blob.open({ signal });
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    bytes += chunk.length;
    if (bytes > blob.sizeBytes) throw wrong(blob, `more than the ${blob.sizeBytes} bytes announced`);
    hash.update(chunk);
    yield chunk;
  }
  if (bytes !== blob.sizeBytes) throw wrong(blob, `${bytes} of ${blob.sizeBytes} bytes`);
  const actual = hash.digest("hex");
  if (actual !== expected) throw wrong(blob, `content with ${algorithm}:${actual}`);
}

function wrong(blob: SourceBlob, what: string): Fault {
  return new Fault("invalid", `the registry sent ${what} for ${blob.digest}`);
}
