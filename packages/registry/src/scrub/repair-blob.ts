/** Content that has foreign bytes after its own can be restored: its own bytes are still there, and the digest proves it. */
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { getAlgorithm, type Digest } from "../names.ts";
import { layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import { hashFile } from "../uploads/hash-file.ts";
import { verifyBlob } from "./verify-blob.ts";

export interface RepairOptions {
  readonly digest: Digest;
  /** The size that manifests give for the blob; undefined when no manifest names it. */
  readonly sizeBytes: number | undefined;
  readonly directory: string;
  readonly signal: AbortSignal;
}

/** Whether the content was restored; false when its own bytes are not there. */
export async function tryRepairBlob(
  storage: Storage,
  { digest, sizeBytes, directory, signal }: RepairOptions,
): Promise<boolean> {
  if (sizeBytes === undefined) return false;
  const prefix = await verifyBlob(storage, digest, { signal, sizeBytes });
  if (prefix.kind !== "intact") return false;
  const path = join(directory, `repair-${randomBytes(12).toString("hex")}`);
  try {
    await copyPrefix(storage, { digest, sizeBytes, path, signal });
    // Proven once more from what was written.
    if ((await hashFile(path, { algorithm: getAlgorithm(digest), sizeBytes })) !== digest) return false;
    await storage.putFile(layout.blob(digest), { path, sizeBytes });
    return true;
  } finally {
    await rm(path, { force: true });
  }
}

interface PrefixCopy {
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly path: string;
  readonly signal: AbortSignal;
}

async function copyPrefix(storage: Storage, { digest, sizeBytes, path, signal }: PrefixCopy): Promise<void> {
  await using blob = await storage.open(layout.blob(digest));
  if (!blob) throw new Fault("notFound", `${digest} was deleted while it was repaired`);
  const file = createWriteStream(path, { mode: 0o600 });
  const closed = new Promise<void>((resolve, reject) => {
    file.once("close", () => resolve());
    file.once("error", reject);
  });
  try {
    if (sizeBytes > 0) await blob.copyTo(file, { signal, range: { start: 0, end: sizeBytes - 1 } });
  } finally {
    file.end();
    await closed;
  }
}
