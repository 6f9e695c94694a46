/** Snapshots and images of an external `cocoon`. */
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { readArchive } from "../archive/read-archive.ts";
import { envelopeName, writeArchive } from "../archive/write-archive.ts";
import type { Image } from "../image-store.ts";
import type {
  ExportOptions,
  ImportDirectoryOptions,
  ImportOptions,
  SaveOptions,
  SnapshotFiles,
  VmImages,
  VmSnapshots,
} from "../runtime.ts";
import type { SaveReport, Snapshot } from "../snapshot.ts";
import { newId } from "../store/ids.ts";
import { snapshotJsonSchema, snapshotOfJson } from "../wire/snapshot-json.ts";
import { ended, run, start, type CocoonCommand } from "./command.ts";

export class CliSnapshots implements VmSnapshots {
  readonly #command: CocoonCommand;

  constructor(command: CocoonCommand) {
    this.#command = command;
  }

  async save(vmRef: string, options: SaveOptions): Promise<SaveReport> {
    if (options.resume === false)
      throw new Fault("notSupported", "the cocoon command cannot save a VM and leave it frozen");
    const began = performance.now();
    // The command prints no id on stdout: the name is what finds it again.
    const name = options.name ?? `snapshot-${newId().toLowerCase()}`;
    const description = options.description ? ["--description", options.description] : [];
    await run(this.#command, ["snapshot", "save", "--name", name, ...description, vmRef], options);
    const snapshot = await this.inspect(name, options);
    const vm = z
      .object({ id: z.string() })
      .parse(JSON.parse(await run(this.#command, ["vm", "inspect", vmRef], options)));
    const tookMs = performance.now() - began;
    return { snapshot: { ...snapshot, vmId: vm.id }, pausedMs: tookMs, dirtyBytes: 0, tookMs };
  }

  async list(options: Abortable & { readonly vmRef?: string }): Promise<readonly Snapshot[]> {
    const of = options.vmRef === undefined ? [] : ["--vm", options.vmRef];
    const text = await run(this.#command, ["snapshot", "list", "-o", "json", ...of], options);
    return readList(text, "No snapshots found", snapshotJsonSchema).map(snapshotOfJson);
  }

  async inspect(ref: string, options: Abortable): Promise<Snapshot> {
    const text = await run(this.#command, ["snapshot", "inspect", ref], options);
    const snapshot = snapshotOfJson(snapshotJsonSchema.parse(parseJson(text)));
    const vmId = await this.#ownerOf(snapshot.id, options);
    return vmId === undefined ? snapshot : { ...snapshot, vmId };
  }

  /** The VM that lists it as its own: the snapshot itself does not say. */
  async #ownerOf(id: string, options: Abortable): Promise<string | undefined> {
    const text = await run(this.#command, ["vm", "list", "-o", "json"], options);
    const schema = z.object({ id: z.string(), snapshot_ids: z.record(z.string(), z.unknown()).nullish() });
    return readList(text, "No VMs found", schema).find((vm) => Object.hasOwn(vm.snapshot_ids ?? {}, id))?.id;
  }

  async remove(ref: string, options: Abortable): Promise<void> {
    await run(this.#command, ["snapshot", "rm", ref], options);
  }

  async export(ref: string, options: ExportOptions): Promise<Readable> {
    await this.inspect(ref, options);
    const child = start(this.#command, [
      "snapshot",
      "export",
      ref,
      ...(options.gzip ? ["--gzip"] : []),
      "-o",
      "-",
    ]);
    child.stdin.end();
    const over = ended(child, options);
    over.catch(() => undefined); // told by the stream
    async function* bytes(): AsyncGenerator<Buffer, void, void> {
      try {
        for await (const piece of child.stdout) yield piece as Buffer;
        await over;
      } finally {
        child.kill("SIGTERM");
      }
    }
    return Readable.from(bytes(), { objectMode: false });
  }

  async import(archive: Readable, options: ImportOptions): Promise<Snapshot> {
    const name = options.name ?? `import-${newId().toLowerCase()}`;
    const description = options.description ? ["--description", options.description] : [];
    await run(this.#command, ["snapshot", "import", "--name", name, ...description], {
      ...options,
      input: archive,
    });
    return this.inspect(name, options);
  }

  async withFiles<T>(ref: string, use: (files: SnapshotFiles) => Promise<T>, options: Abortable): Promise<T> {
    const snapshot = await this.inspect(ref, options);
    const directory = await mkdtemp(join(tmpdir(), "cocoon-export-"));
    try {
      const text = await readArchive(await this.export(snapshot.id, options), directory, options);
      const envelope = z.record(z.string(), z.unknown()).parse(JSON.parse(text));
      const names = (await readdir(directory)).sort();
      const files = await Promise.all(
        names.map(async (name) => {
          const path = join(directory, name);
          return { name, path, sizeBytes: (await stat(path)).size, mode: 0o644 };
        }),
      );
      return await use({ snapshot, envelope, files });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot> {
    const names = (await readdir(directory)).filter((name) => name !== envelopeName);
    const envelope: unknown = JSON.parse(await readFile(join(directory, envelopeName), "utf8"));
    const files = names.map((name) => ({ name, path: join(directory, name), mode: 0o644 }));
    const archive = Readable.from(writeArchive({ envelope, files, modifiedAt: new Date() }, options), {
      objectMode: false,
    });
    const snapshot = await this.import(archive, options);
    if (options.consume) await rm(directory, { recursive: true, force: true });
    return snapshot;
  }
}

const imageSchema = z.object({
  id: z.string(),
  name: z.string(),
  type: z.enum(["oci", "cloudimg"]).catch("oci"),
  size: z.int().default(0),
  created_at: z.string().default(""),
});

export function cliImages(command: CocoonCommand): VmImages {
  const inspect = async (ref: string, options: Abortable): Promise<Image> =>
    imageOf(imageSchema.parse(parseJson(await run(command, ["image", "inspect", ref], options))));
  return {
    inspect,
    pull: async (ref, options) => {
      await run(command, ["image", "pull", ...(options.force ? ["--force"] : []), ref], options);
      return inspect(ref, options);
    },
    import: async (name, sources, options) => {
      const [only, ...more] = sources;
      if (!only) throw new Fault("invalid", "an image needs a source");
      if (more.length === 0) await run(command, ["image", "import", name], { ...options, input: only });
      else await importParts(command, { name, sources }, options);
      return inspect(name, options);
    },
    list: async (options) => {
      const text = await run(command, ["image", "list", "-o", "json"], options);
      return readList(text, "No images found", imageSchema).map(imageOf);
    },
    remove: async (ref, options) => void (await run(command, ["image", "rm", ref], options)),
  };
}

/** Several parts can only be given as files. */
async function importParts(
  command: CocoonCommand,
  { name, sources }: { readonly name: string; readonly sources: readonly Readable[] },
  options: Abortable,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "cocoon-import-"));
  try {
    const paths: string[] = [];
    for (const [index, source] of sources.entries()) {
      const path = join(directory, String(index).padStart(4, "0"));
      await writeFile(path, source, { signal: options.signal });
      paths.push(path);
    }
    await run(command, ["image", "import", name, ...paths], options);
  } catch (error) {
    throw toFault(error);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function imageOf(json: z.output<typeof imageSchema>): Image {
  return { id: json.id, name: json.name, type: json.type, sizeBytes: json.size, createdAt: json.created_at };
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Fault("internal", `cocoon printed something that is not JSON: ${text.slice(0, 200)}`, {
      cause: error,
    });
  }
}

/** An empty list is a sentence, also when JSON was asked for. Entries that make no sense are left out. */
export function readList<S extends z.ZodType>(text: string, nothing: string, schema: S): z.output<S>[] {
  if (text.trim() === "" || text.startsWith(nothing)) return [];
  const entries = z.array(z.unknown()).parse(parseJson(text));
  return entries.flatMap((entry) => {
    const parsed = schema.safeParse(entry);
    return parsed.success ? [parsed.data] : [];
  });
}
