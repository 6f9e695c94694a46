/** Cloud images by http(s) URL or from a file of this host. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, isFault, systemCode, type Abortable } from "@cocoon/core";
import type { PullOptions } from "../../runtime.ts";
import { commitImage, copyIn, type ImageContext } from "../image-files.ts";
import type { ImageRecord } from "../image-record.ts";
import { checkDisk } from "./disk-file.ts";
import { discardDownload, download, isUnchanged, type Downloaded } from "./download.ts";
import type { CloudImageUrl } from "./image-url.ts";

export interface UrlRequest {
  readonly image: CloudImageUrl;
  /** What the image is called afterwards. */
  readonly name: string;
}

/**
 * A broken download is kept and taken up again by the next pull; a file that turns out to be wrong is not.
 */
export async function pullUrl(
  context: ImageContext,
  { image, name }: UrlRequest,
  options: PullOptions,
): Promise<ImageRecord> {
  const lockName = `pull-${createHash("sha256").update(image.url).digest("hex").slice(0, 32)}`;
  await using _lock = await context.store.lock(lockName, options);
  const known = await context.records.tryFind([name]);
  if (known && !options.force && (await isCurrent(known, image, options))) return known;
  await using work = await context.store.openWork();
  const fetched =
    image.path === undefined
      ? await fetchFile(context, image.url, options)
      : await takeFile(image.path, work.path);
  try {
    await verifyChecksum(fetched.path, image, options);
    const { signal } = options;
    const disk = await checkDisk(fetched.path, { work: work.path, signal, maxBytes: context.maxDiskBytes });
    const source = sourceOf(image, fetched);
    return await commitImage(
      context,
      { name, type: "cloudimg", os: "linux", boot: disk.firmware, disk, source },
      options,
    );
  } finally {
    if (image.path === undefined) await discardDownload(image.url, downloadsOf(context));
    else await rm(fetched.path, { force: true });
  }
}

/** Where unfinished downloads wait. */
export function downloadsOf({ store }: Pick<ImageContext, "store">): string {
  return join(store.directory, "downloads");
}

/** Whoever cannot be asked is not asked to prove that nothing changed: the copy that is here goes on being used. */
async function isCurrent(known: ImageRecord, image: CloudImageUrl, options: Abortable): Promise<boolean> {
  if (image.checksum) return known.source?.checksum === `${image.checksum.algorithm}:${image.checksum.hex}`;
  const validator = known.source?.validator;
  if (validator === undefined) return true;
  if (image.path !== undefined) return (await fileValidator(image.path)) === validator;
  try {
    return await isUnchanged(image.url, validator, options);
  } catch (error) {
    options.signal.throwIfAborted();
    if (isFault(error) && !error.traits.retry) throw error;
    return true;
  }
}

function sourceOf({ url, checksum }: CloudImageUrl, { validator }: Downloaded): ImageRecord["source"] {
  return {
    url,
    ...(validator === undefined ? {} : { validator }),
    ...(checksum === undefined ? {} : { checksum: `${checksum.algorithm}:${checksum.hex}` }),
  };
}

function fetchFile(context: ImageContext, url: string, options: PullOptions): Promise<Downloaded> {
  const { signal, onProgress } = options;
  return download(url, {
    signal,
    directory: downloadsOf(context),
    maxBytes: context.maxDiskBytes,
    ...(onProgress ? { onProgress } : {}),
  });
}

async function takeFile(path: string, work: string): Promise<Downloaded> {
  const validator = await fileValidator(path);
  return { path: await copyIn(path, work), validator };
}

async function fileValidator(path: string): Promise<string> {
  try {
    const { size, mtimeMs } = await stat(path);
    return `${size}-${mtimeMs}`;
  } catch (error) {
    if (systemCode(error) === "ENOENT") throw new Fault("notFound", `the image file ${path} does not exist`);
    throw error;
  }
}

async function verifyChecksum(
  path: string,
  { checksum, url }: CloudImageUrl,
  { signal }: Abortable,
): Promise<void> {
  if (!checksum) return;
  const hash = createHash(checksum.algorithm);
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  const actual = hash.digest("hex");
  if (actual === checksum.hex) return;
  throw new Fault(
    "invalid",
    `${url} has ${checksum.algorithm} ${actual}, not ${checksum.hex} as was asked for`,
  );
}
