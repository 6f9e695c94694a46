/** Cloud images by http(s) URL or from a file of this host. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, ignoreMissing, isFault, type Abortable } from "@cocoon/core";
import type { PullOptions } from "@cocoon/vm";
import { commitImage, copyIn, type ImageContext } from "../image-files.ts";
import type { ImageRecord } from "../image-record.ts";
import { assertFileAllowed } from "../image-policy.ts";
import { checkDisk } from "./disk-file.ts";
import { discardDownload, download, isUnchanged, type Downloaded } from "./download.ts";
import type { CloudImageUrl } from "./image-url.ts";

/**
 * A broken download is kept and taken up again by the next pull; a file that turns out to be wrong is not.
 */
export async function pullUrl(
  context: ImageContext,
  { image, name }: { readonly image: CloudImageUrl; readonly name: string },
  options: PullOptions,
): Promise<ImageRecord> {
  const lockName = `pull-${createHash("sha256").update(image.url).digest("hex").slice(0, 32)}`;
  await using _lock = await context.store.lock(lockName, options);
  if (image.path !== undefined) await assertFileAllowed(image.path, context.policy);
  const known = await context.records.tryFind([name]);
  if (known && !options.force && (await isCurrent(known, image, { ...context, ...options }))) return known;
  await using work = await context.store.openWork();
  const fetched =
    image.path === undefined
      ? await fetchFile(context, image.url, options)
      : await takeFile(image.path, work.path);
  try {
    await verifyChecksum(fetched.path, image, options);
    const { signal } = options;
    const disk = await checkDisk(fetched.path, { work: work.path, signal, maxBytes: context.maxDiskBytes });
    const source = buildSource(image, fetched);
    return await commitImage(
      context,
      { name, type: "cloudimg", os: "linux", boot: disk.firmware, disk, source },
      options,
    );
  } finally {
    if (image.path === undefined) await discardDownload(image.url, downloadDirectory(context));
    else await rm(fetched.path, { force: true });
  }
}

export function downloadDirectory({ store }: Pick<ImageContext, "store">): string {
  return join(store.directory, "downloads");
}

/** A server that does not answer proves nothing: the local copy stays in use. */
async function isCurrent(
  known: ImageRecord,
  image: CloudImageUrl,
  { policy, ...options }: Abortable & Pick<ImageContext, "policy">,
): Promise<boolean> {
  if (image.checksum) return known.source?.checksum === `${image.checksum.algorithm}:${image.checksum.hex}`;
  const validator = known.source?.validator;
  if (validator === undefined) return true;
  if (image.path !== undefined) return (await fileValidator(image.path)) === validator;
  try {
    return await isUnchanged(image.url, validator, {
      signal: options.signal,
      ...(policy ? { policy } : {}),
    });
  } catch (error) {
    options.signal.throwIfAborted();
    if (isFault(error) && !error.traits.retry) throw error;
    return true;
  }
}

function buildSource({ url, checksum }: CloudImageUrl, { validator }: Downloaded): ImageRecord["source"] {
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
    directory: downloadDirectory(context),
    maxBytes: context.maxDiskBytes,
    ...(context.policy ? { policy: context.policy } : {}),
    ...(onProgress ? { onProgress } : {}),
  });
}

async function takeFile(path: string, work: string): Promise<Downloaded> {
  const validator = await fileValidator(path);
  return { path: await copyIn(path, work), validator };
}

async function fileValidator(path: string): Promise<string> {
  const found = await ignoreMissing(stat(path));
  if (!found) throw new Fault("notFound", `the image file ${path} does not exist`);
  return `${found.size}-${found.mtimeMs}`;
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
