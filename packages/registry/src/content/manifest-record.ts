/** A manifest at rest: one line of JSON about it, then the exact bytes that were pushed. */
import * as z from "zod";
import { Fault } from "@cocoon/core";
import type { Digest } from "../names.ts";
import type { Manifest } from "./manifest.ts";
import type { ManifestReader } from "./manifest-reader.ts";

const header = z.object({ mediaType: z.string(), pushedAt: z.string() });

export type ManifestHeader = Readonly<z.infer<typeof header>>;

export interface StoredManifest extends ManifestHeader {
  readonly digest: Digest;
  readonly bytes: Buffer;
  /** Parsed on demand: most answers only need the bytes. */
  manifest(): Promise<Manifest>;
}

export function writeRecord(about: ManifestHeader, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(about)}\n`), bytes]);
}

export function readRecord(digest: Digest, record: Buffer, reader: ManifestReader): StoredManifest {
  const end = record.indexOf(0x0a);
  const about = header.safeParse(parseLine(record, end));
  if (!about.success) throw new Fault("internal", `the record of manifest ${digest} is damaged`);
  const bytes = record.subarray(end + 1);
  const { mediaType, pushedAt } = about.data;
  return { digest, mediaType, pushedAt, bytes, manifest: () => reader.read(bytes, mediaType) };
}

function parseLine(record: Buffer, end: number): unknown {
  try {
    return JSON.parse(record.toString("utf8", 0, end));
  } catch {
    return undefined; // reported as damaged by the caller, with the digest
  }
}
