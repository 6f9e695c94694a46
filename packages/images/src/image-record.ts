/** What is known about each image of the host: one small file per name, so that writers never meet. */
import { createHash } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { tryReadJson, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";
import type { Image } from "@cocoon/vm";
import { listDirectory, type BlobStore } from "./blob-store.ts";

/** What a container image runs, from its config. */
const programSchema = z.object({
  /** Entrypoint and command; empty = nothing, the guest offers a shell on its console. */
  argv: z.array(z.string()),
  /** KEY=value. */
  env: z.array(z.string()),
  /** `user[:group]`, names or numbers; empty = root. */
  user: z.string(),
  workingDirectory: z.string(),
});
export type ContainerProgram = z.infer<typeof programSchema>;
export const noProgram: ContainerProgram = { argv: [], env: [], user: "", workingDirectory: "" };

const recordSchema = z.object({
  version: z.literal(1),
  id: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  name: z.string().min(1),
  type: z.enum(["oci", "cloudimg"]),
  sizeBytes: z.int().nonnegative(),
  createdAt: z.string(),
  os: z.enum(["linux", "windows", "android"]),
  disk: z.object({
    blob: z.string().regex(/^[0-9a-f]{64}$/),
    format: z.enum(["qcow2", "raw"]),
    virtualBytes: z.int().positive(),
  }),
  /** `bundle`: our kernel and initramfs. `bios`, `uefi`: its own boot loader, by that firmware. */
  boot: z.enum(["bundle", "bios", "uefi"]),
  /** Where it came from, for asking whether there is a newer one. */
  source: z
    .object({ url: z.string(), validator: z.string().optional(), checksum: z.string().optional() })
    .optional(),
  program: programSchema.optional(),
});

export type ImageRecord = Readonly<z.infer<typeof recordSchema>>;

export class ImageRecords {
  readonly #store: BlobStore;

  constructor(store: BlobStore) {
    this.#store = store;
  }

  async list(): Promise<ImageRecord[]> {
    const directory = join(this.#store.directory, "images");
    const records: ImageRecord[] = [];
    for (const file of await listDirectory(directory)) {
      const record = file.endsWith(".json") ? await this.#tryRead(join(directory, file)) : undefined;
      if (record) records.push(record);
    }
    return records.sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  }

  /** By one of the names, or by digest: whole, or its hex digits alone. */
  async tryFind(names: readonly string[]): Promise<ImageRecord | undefined> {
    for (const name of names) {
      const record = await this.#tryRead(this.#path(name));
      if (record) return record;
    }
    const digests = names.map((name) => (/^[0-9a-f]{64}$/.test(name) ? `sha256:${name}` : name));
    if (!digests.some((each) => each.startsWith("sha256:"))) return undefined;
    return (await this.list()).find(({ id }) => digests.includes(id));
  }

  /** Under the store's commit lock. */
  async write(record: ImageRecord): Promise<void> {
    await writeFileAtomically(this.#path(record.name), `${JSON.stringify(record, undefined, 2)}\n`);
  }

  async remove(record: ImageRecord): Promise<void> {
    await rm(this.#path(record.name), { force: true });
  }

  #path(name: string): string {
    const hex = createHash("sha256").update(name).digest("hex");
    return join(this.#store.directory, "images", `${hex}.json`);
  }

  #tryRead(path: string): Promise<ImageRecord | undefined> {
    return tryReadJson(path, recordSchema, "remove it and pull the image again");
  }
}

export function toImage({ id, name, type, sizeBytes, createdAt }: ImageRecord): Image {
  return { id, name, type, sizeBytes, createdAt };
}
