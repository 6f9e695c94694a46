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
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import {
  isAlive,
  lockFile,
  processIdentitySchema,
  syncDirectory,
  systemCode,
  tryIdentify,
  tryReadFile,
  writeFileAtomically,
  type Abortable,
  type FileLock,
} from "@cocoon/core";
import * as z from "zod";

const hexDigest = z.string().regex(/^[0-9a-f]{64}$/);

const buildSchema = z.object({
  /** Output name -> blob. */
  outputs: z.record(z.string(), hexDigest),
  /** What went in, for people and for the image record. */
  notes: z.record(z.string(), z.unknown()),
});

export type Build = Readonly<z.infer<typeof buildSchema>>;

export interface WorkDirectory extends AsyncDisposable {
  readonly path: string;
}

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
    return stat(this.blobPath(hex)).then(
      () => true,
      (error: unknown) => {
        if (systemCode(error) === "ENOENT") return false;
        throw error;
      },
    );
  }

  /** A private directory that goes with the scope, or, when the process dies, with the next garbage collection. */
  async openWork(): Promise<WorkDirectory> {
    const path = join(this.directory, "work", `${process.pid}-${randomBytes(6).toString("hex")}`);
    await mkdir(path, { recursive: true, mode: 0o700 });
    await writeFile(join(path, "owner.json"), JSON.stringify(tryIdentify(process.pid)));
    return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
  }

  /** The build that is to be used under that name. */
  async tryCurrent(name: string): Promise<{ readonly key: string; readonly build: Build } | undefined> {
    const text = await tryReadFile(this.#currentPath(name));
    const parsed = text === undefined ? undefined : z.object({ key: z.string() }).safeParse(tryParse(text));
    if (!parsed?.success) return undefined;
    const build = await this.tryBuild(parsed.data.key);
    return build && { key: parsed.data.key, build };
  }

  async setCurrent(name: string, key: string): Promise<void> {
    await writeFileAtomically(this.#currentPath(name), `${JSON.stringify({ key })}\n`);
  }

  lock(name: string, options: Abortable): Promise<FileLock> {
    return lockFile(join(this.directory, "locks", `${name}.lock`), options);
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
    for (const path of paths) digests.push(await sha256OfFile(path, options));
    await using _lock = await this.lock("commit", options);
    for (const [index, path] of paths.entries()) await this.#moveIn(path, digests[index] ?? "");
    return await record(digests);
  }

  async tryBuild(key: string): Promise<Build | undefined> {
    const text = await tryReadFile(this.#buildPath(key));
    if (text === undefined) return undefined;
    const parsed = buildSchema.safeParse(tryParse(text));
    if (!parsed.success) return undefined; // damaged: made again
    for (const hex of Object.values(parsed.data.outputs)) if (!(await this.has(hex))) return undefined;
    return parsed.data;
  }

  async #moveIn(path: string, hex: string): Promise<void> {
    await mkdir(join(this.directory, "blobs"), { recursive: true, mode: 0o700 });
    const file = await open(path, "r");
    try {
      await file.sync();
    } finally {
      await file.close();
    }
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

  /** Work directories whose process is gone. */
  async abandonedWork(): Promise<string[]> {
    const abandoned: string[] = [];
    for (const name of await listDirectory(join(this.directory, "work"))) {
      const path = join(this.directory, "work", name);
      const owner = processIdentitySchema.safeParse(tryParse(await readOwner(path)));
      // Without a readable owner its name tells the process, which may be about to write it.
      const alive = owner.success
        ? isAlive(owner.data)
        : tryIdentify(Number.parseInt(name, 10)) !== undefined;
      if (!alive) abandoned.push(path);
    }
    return abandoned;
  }
}

async function readOwner(path: string): Promise<string> {
  return readFile(join(path, "owner.json"), "utf8").catch(() => "");
}

export async function listDirectory(path: string): Promise<string[]> {
  try {
    return (await readdir(path)).sort();
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export async function sha256OfFile(path: string, { signal }: Abortable): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash, { signal });
  return hash.digest("hex");
}
