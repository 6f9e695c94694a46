/**
 * Immutable files, named by their SHA-256, and notes of what was made of what.
 *
 *   DIRECTORY/
 *     blobs/HEX           a file; mode 0444; never changed, only removed
 *     builds/KEY.json     which blobs were made from the input that KEY stands for
 *     images/HEX.json     one image record each (image-index.ts); HEX = SHA-256 of its name
 *     current/NAME.json   which of several builds is the one to use
 *     downloads/          unfinished downloads (cloud/download.ts)
 *     work/PID-RANDOM/    work in progress, with owner.json; removed once its process is gone
 *     apt/                package lists of our own, where the host's do not do
 *     locks/
 *
 * Whatever makes a blob visible writes the note or record that names it under the same lock, and garbage collection
 * takes that lock too: it never sees one without the other.
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, mkdir, open, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import {
  ignoreMissing,
  isAlive,
  lockFile,
  pathExists,
  processIdentitySchema,
  syncDirectory,
  tryIdentify,
  tryReadJson,
  writeFileAtomically,
  type Abortable,
  type FileLock,
} from "@cocoon/core";
import * as z from "zod";

const hexDigest = z.string().regex(/^[0-9a-f]{64}$/);

const buildSchema = z.object({
  outputs: z.record(z.string(), hexDigest),
  /** What went in, for people and for the image record. */
  notes: z.record(z.string(), z.unknown()),
});

export type Build = Readonly<z.infer<typeof buildSchema>>;

export interface NewBuild {
  /** Output name -> finished file, which is moved into the store. */
  readonly outputs: Readonly<Record<string, string>>;
  readonly notes: Readonly<Record<string, unknown>>;
}

export class BlobStore {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  blobPath(hex: string): string {
    return join(this.directory, "blobs", hex);
  }

  get aptDirectory(): string {
    return join(this.directory, "apt");
  }

  async has(hex: string): Promise<boolean> {
    return pathExists(this.blobPath(hex));
  }

  /** A private directory that goes with the scope, or, when the process dies, with the next garbage collection. */
  async openWork(): Promise<AsyncDisposable & { readonly path: string }> {
    const path = join(this.directory, "work", `${process.pid}-${randomBytes(6).toString("hex")}`);
    await mkdir(path, { recursive: true, mode: 0o700 });
    await writeFile(join(path, "owner.json"), JSON.stringify(tryIdentify(process.pid)));
    return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
  }

  async tryCurrent(name: string): Promise<{ readonly key: string; readonly build: Build } | undefined> {
    const current = await tryReadJson(this.#currentPath(name), z.object({ key: z.string() }));
    const build = current && (await this.tryBuild(current.key));
    return build && { key: current.key, build };
  }

  async setCurrent(name: string, key: string): Promise<void> {
    await writeFileAtomically(this.#currentPath(name), `${JSON.stringify({ key })}\n`);
  }

  async lock(name: string, options: Abortable): Promise<FileLock> {
    const path = this.lockPath(name);
    await mkdir(dirname(path), { recursive: true });
    return lockFile(path, options);
  }

  lockPath(name: string): string {
    return join(this.directory, "locks", `${name}.lock`);
  }

  /**
   * The outputs of a build: remembered ones when all are still there, otherwise made now. Of several processes that
   * want the same, one makes it and the others wait.
   */
  async ensureBuild(
    key: string,
    make: (work: string) => Promise<NewBuild>,
    options: Abortable,
  ): Promise<Build> {
    const known = await this.tryBuild(key);
    if (known) return known;
    await using _lock = await this.lock(`build-${key}`, options);
    const meanwhile = await this.tryBuild(key);
    if (meanwhile) return meanwhile;
    await using work = await this.openWork();
    const made = await make(work.path);
    return await this.commit(Object.values(made.outputs), options, async (digests) => {
      const names = Object.keys(made.outputs);
      const build: Build = {
        outputs: Object.fromEntries(names.map((name, index) => [name, digests[index] ?? ""])),
        notes: made.notes,
      };
      await writeFileAtomically(this.#buildPath(key), `${JSON.stringify(build, undefined, 2)}\n`);
      return build;
    });
  }

  /**
   * Moves finished files in and lets `record` write down what they are, as one step for garbage collection. The
   * digests come in the order of the files.
   */
  async commit<T>(
    paths: readonly string[],
    options: Abortable,
    record: (digests: readonly string[]) => Promise<T>,
  ): Promise<T> {
    const digests: string[] = [];
    for (const path of paths) digests.push(await hashFile(path, options));
    await using _lock = await this.lock("commit", options);
    for (const [index, path] of paths.entries()) await this.#moveIn(path, digests[index] ?? "");
    return await record(digests);
  }

  /** A damaged note is none: the build is made again. */
  async tryBuild(key: string): Promise<Build | undefined> {
    const build = await tryReadJson(this.#buildPath(key), buildSchema);
    for (const hex of Object.values(build?.outputs ?? {})) if (!(await this.has(hex))) return undefined;
    return build;
  }

  async #moveIn(path: string, hex: string): Promise<void> {
    await mkdir(join(this.directory, "blobs"), { recursive: true, mode: 0o700 });
    await using file = await open(path, "r");
    await file.sync();
    await chmod(path, 0o444);
    await rename(path, this.blobPath(hex));
    await syncDirectory(join(this.directory, "blobs"));
  }

  #currentPath(name: string): string {
    return join(this.directory, "current", `${name}.json`);
  }

  #buildPath(key: string): string {
    return join(this.directory, "builds", `${key}.json`);
  }

  async buildKeys(): Promise<string[]> {
    const files = await listDirectory(join(this.directory, "builds"));
    return files.filter((file) => file.endsWith(".json")).map((file) => file.slice(0, -".json".length));
  }

  async forgetBuild(key: string): Promise<void> {
    await rm(this.#buildPath(key), { force: true });
  }

  async abandonedWork(): Promise<string[]> {
    const abandoned: string[] = [];
    for (const name of await listDirectory(join(this.directory, "work"))) {
      const path = join(this.directory, "work", name);
      const owner = await tryReadJson(join(path, "owner.json"), processIdentitySchema);
      // Without a readable owner its name is the process, which may be about to write it.
      const alive = owner ? isAlive(owner) : tryIdentify(Number.parseInt(name, 10)) !== undefined;
      if (!alive) abandoned.push(path);
    }
    return abandoned;
  }
}

export async function listDirectory(path: string): Promise<string[]> {
  return ((await ignoreMissing(readdir(path))) ?? []).sort();
}

async function hashFile(path: string, { signal }: Abortable): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  return hash.digest("hex");
}
