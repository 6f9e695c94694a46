/**
 * The cache of downloaded or built programs, outside the repository and shared by all checkouts of a user:
 *
 *   <cache>/controlplane/<kubernetes>-<etcd>-<os>-<arch>/
 *     lock                one builder or downloader at a time on this machine
 *     checksums.json      name -> sha256, size, mtime and origin, written after the file itself
 *     <program>           in place only when complete: it is renamed here; metrics-server and coredns with their versions
 *     .partial-<program>  a build or download under way; the next run begins it again or resumes it
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rename, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { tryReadJson, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import {
  corednsVersion,
  etcdVersion,
  kubernetesVersion,
  metricsServerVersion,
  programs,
  type ProgramName,
} from "./programs.ts";

const entrySchema = z.object({
  sha256: z.string(),
  sizeBytes: z.number(),
  mtimeMs: z.number(),
  origin: z.string(),
});
/** The directory is named by the versions of the others. */
const ownVersions: Partial<Record<ProgramName, string>> = {
  "metrics-server": metricsServerVersion,
  coredns: corednsVersion,
};

const checksumsSchema = z.record(z.string(), entrySchema);
export type CacheEntry = Readonly<z.infer<typeof entrySchema>>;

export class BinaryCache {
  readonly directory: string;

  constructor(root: string) {
    const platform = `${process.platform}-${process.arch}`;
    this.directory = join(root, "controlplane", `${kubernetesVersion}-${etcdVersion}-${platform}`);
  }

  get lockPath(): string {
    return join(this.directory, "lock");
  }

  path(name: ProgramName): string {
    const version = ownVersions[name];
    return join(this.directory, version === undefined ? name : `${name}-${version}`);
  }

  partialPath(name: ProgramName): string {
    return join(this.directory, `.partial-${name}`);
  }

  /** The cached program, checked against its recorded checksum; undefined when absent or damaged. */
  async find(name: ProgramName): Promise<CacheEntry | undefined> {
    const entry = (await this.#readChecksums())[name];
    const found = await stat(this.path(name)).catch(() => undefined);
    if (!entry || !found || found.size !== entry.sizeBytes) return undefined;
    // Reading 350 MB at every start would cost a second; an untouched file was verified before.
    if (found.mtimeMs === entry.mtimeMs) return entry;
    return (await computeSha256(this.path(name))) === entry.sha256 ? entry : undefined;
  }

  /** Moves a finished partial file into place and records its checksum. */
  async commit(name: ProgramName, origin: string): Promise<void> {
    const sha256 = await computeSha256(this.partialPath(name));
    await rename(this.partialPath(name), this.path(name));
    const { size, mtimeMs } = await stat(this.path(name));
    const checksums = await this.#readChecksums();
    checksums[name] = { sha256, sizeBytes: size, mtimeMs, origin };
    await writeFileAtomically(
      join(this.directory, "checksums.json"),
      `${JSON.stringify(checksums, null, 2)}\n`,
    );
  }

  /** A damaged record means that nothing is known: everything is fetched again. */
  async #readChecksums(): Promise<z.infer<typeof checksumsSchema>> {
    return (await tryReadJson(join(this.directory, "checksums.json"), checksumsSchema)) ?? {};
  }
}

export function defaultCacheRoot(env: Readonly<Record<string, string | undefined>>): string {
  return env["COCOON_CACHE"] ?? join(env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon");
}

/** Where the cache keeps each program, whether it is there yet or not. */
export function cachedBinaries(root: string): Readonly<Record<ProgramName, string>> {
  const cache = new BinaryCache(root);
  return Object.fromEntries(programs.map(({ name }) => [name, cache.path(name)])) as Record<
    ProgramName,
    string
  >;
}

async function computeSha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest("hex");
}
