/** Snapshots and images of an external `cocoon`. */
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import { exportArchive, importArchive, listSourceFiles } from "@cocoon/oci";
import * as z from "zod";
import type { Image } from "../image-store.ts";
import type { SnapshotFiles, VmImages, VmSnapshots } from "../runtime.ts";
import type { ExportOptions, ImportDirectoryOptions, ImportOptions, SaveOptions } from "../requests.ts";
import type { SaveReport, Snapshot } from "../snapshot.ts";
import { newId } from "../ids.ts";
import type { Vm } from "../vm.ts";
import { readHypervisor, snapshotJsonSchema, readSnapshotJson } from "../wire/snapshot-json.ts";
import { vmJsonSchema, readVmJson } from "../wire/vm-json.ts";
import { nicArguments } from "./argv.ts";
import { ended, run, start, type CocoonCommand } from "./command.ts";
import type { Vintage } from "./vintage.ts";

export class CliSnapshots implements VmSnapshots {
  readonly #command: CocoonCommand;
  readonly #vintage: Vintage;

  constructor(command: CocoonCommand, vintage: Vintage) {
    this.#command = command;
    this.#vintage = vintage;
  }

  async save(vmRef: string, options: SaveOptions): Promise<SaveReport> {
    if (options.resume === false)
      throw new Fault("notSupported", "the cocoon command cannot save a VM and leave it frozen");
    if (options.disksOnly)
      throw new Fault("notSupported", "the cocoon command cannot save the disks of a VM that does not run");
    const began = performance.now();
    // The command prints no id on stdout: the name is what finds it again.
    const name = options.name ?? `snapshot-${newId().toLowerCase()}`;
    const description = options.description ? ["--description", options.description] : [];
    const vm = await this.#inspectVm(vmRef, options);
    const save = () =>
      run(this.#command, ["snapshot", "save", "--name", name, ...description, vm.id], options);
    await this.#withoutNics(vm, save, options);
    const snapshot = await this.describe(name, options);
    const tookMs = performance.now() - began;
    return { snapshot: { ...snapshot, vmId: vm.id }, pausedMs: tookMs, dirtyBytes: 0, tookMs };
  }

  async #inspectVm(vmRef: string, options: Abortable): Promise<Vm> {
    const json = vmJsonSchema.parse(parseJson(await run(this.#command, ["vm", "inspect", vmRef], options)));
    return readVmJson(json, readHypervisor(json.hypervisor));
  }

  /** Windows keeps the lease of an interface that it was saved with. It continues with its interfaces whatever happens. */
  async #withoutNics(vm: Vm, save: () => Promise<unknown>, options: Abortable): Promise<void> {
    const applies = vm.config.os === "windows" && vm.hypervisor === "cloud-hypervisor" && vm.nics.length > 0;
    const remove = applies ? nicArguments(vm.id, 0, this.#vintage) : undefined;
    const restore = nicArguments(vm.id, vm.nics.length, this.#vintage);
    if (!remove || !restore) return void (await save());
    try {
      await run(this.#command, remove, options);
      await save();
    } finally {
      await run(this.#command, restore, { signal: AbortSignal.timeout(nicTimeoutMs) });
    }
  }

  async list(options: Abortable & { readonly vmRef?: string }): Promise<readonly Snapshot[]> {
    const of = options.vmRef === undefined ? [] : ["--vm", options.vmRef];
    const text = await run(this.#command, ["snapshot", "list", "-o", "json", ...of], options);
    return readList(text, "No snapshots found", snapshotJsonSchema).map(readSnapshotJson);
  }

  /** As the command prints it: without the VM that it was saved of. */
  async describe(ref: string, options: Abortable): Promise<Snapshot> {
    const text = await run(this.#command, ["snapshot", "inspect", ref], options);
    return readSnapshotJson(snapshotJsonSchema.parse(parseJson(text)));
  }

  async inspect(ref: string, options: Abortable): Promise<Snapshot> {
    const snapshot = await this.describe(ref, options);
    const vmId = await this.#findOwner(snapshot.id, options);
    return vmId === undefined ? snapshot : { ...snapshot, vmId };
  }

  /** The VM that lists it as its own. */
  async #findOwner(id: string, options: Abortable): Promise<string | undefined> {
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
    over.catch(() => undefined); // the stream reports it
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
      const archive = await this.export(snapshot.id, options);
      const target = join(directory, "snapshot");
      const envelope = await importArchive({ archive, directory: target, signal: options.signal });
      const files = await Promise.all(
        (await listSourceFiles(target)).map(async (file) => {
          return { ...file, sizeBytes: (await stat(file.path)).size, mode: 0o644 };
        }),
      );
      return await use({ snapshot, envelope, files });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot> {
    const text = await readFile(join(directory, "snapshot.json"), "utf8");
    const envelope = z.record(z.string(), z.unknown()).parse(JSON.parse(text));
    const files = (await listSourceFiles(directory)).map((file) => ({ ...file, mode: 0o644 }));
    const archive = exportArchive({ envelope, files, signal: options.signal });
    const snapshot = await this.import(archive, options);
    if (options.consume) await rm(directory, { recursive: true, force: true });
    return snapshot;
  }
}

const nicTimeoutMs = 30_000;

const imageSchema = z.object({
  id: z.string(),
  name: z.string(),
  type: z.enum(["oci", "cloudimg"]).catch("oci"),
  size: z.int().default(0),
  created_at: z.string().default(""),
});

export function cliImages(command: CocoonCommand): VmImages {
  const inspect = async (ref: string, options: Abortable): Promise<Image> =>
    readImage(imageSchema.parse(parseJson(await run(command, ["image", "inspect", ref], options))));
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
      return readList(text, "No images found", imageSchema).map(readImage);
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

function readImage(json: z.output<typeof imageSchema>): Image {
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

/** An empty list is a sentence, also with `-o json`. Malformed entries are left out. */
export function readList<S extends z.ZodType>(text: string, nothing: string, schema: S): z.output<S>[] {
  if (text.trim() === "" || text.startsWith(nothing)) return [];
  const entries = z.array(z.unknown()).parse(parseJson(text));
  return entries.flatMap((entry) => {
    const parsed = schema.safeParse(entry);
    return parsed.success ? [parsed.data] : [];
  });
}
