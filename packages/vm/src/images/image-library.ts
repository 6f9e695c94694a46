/**
 * The images of a host: `ImageStore` over a directory. Names are tried in this order: images that we build ourselves,
 * URLs and files, registries.
 */
import { readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";
import { ensureGuestProgram } from "../guest/guest-program.ts";
import { writeSeedDisk, type SeedReader } from "../guest/seed.ts";
import type { BootableImage, Image, ImageGcReport, ImageStore, SeedFacts } from "../image-store.ts";
import type { PullOptions } from "../runtime.ts";
import { BlobStore } from "./blob-store.ts";
import { bootBuildKeys, ensureBootBundle } from "./boot-bundle.ts";
import { debianImageName, ensureDebianRecord } from "./builtin/debian-image.ts";
import { demoImageName, ensureDemoRecord, type BuiltinOptions } from "./builtin/demo-image.ts";
import { tryReadImageUrl } from "./cloud/image-url.ts";
import { pullUrl } from "./cloud/pull-url.ts";
import type { ImageContext } from "./image-files.ts";
import { collectGarbage } from "./image-gc.ts";
import { imageOf, ImageRecords, type ImageRecord } from "./image-record.ts";
import type { ImageSource } from "./image-source.ts";
import { importImage } from "./import-image.ts";
import { pullFromRegistry } from "./oci/pull-registry.ts";

export interface ImageLibraryOptions {
  /** Everything is kept below it. Several processes may use it at once. */
  readonly directory: string;
  /** Registries; without it only URLs, files and built-in images can be pulled. */
  readonly source?: ImageSource;
  readonly maxDiskBytes?: number;
  readonly now?: () => Date;
  /** Told what a long step is about. */
  readonly onStep?: (step: string) => void;
}

const defaultMaxDiskBytes = 256 * 2 ** 30;
const noProgram = { argv: [], env: [], user: "", workingDirectory: "" };

const builtins: Readonly<
  Record<string, (context: ImageContext, options: BuiltinOptions) => Promise<ImageRecord>>
> = { [demoImageName]: ensureDemoRecord, [debianImageName]: ensureDebianRecord };

export function openImageLibrary(options: ImageLibraryOptions): ImageLibrary {
  return new ImageLibrary(options);
}

export class ImageLibrary implements ImageStore {
  readonly #options: ImageLibraryOptions;
  readonly #context: ImageContext;

  constructor(options: ImageLibraryOptions) {
    const store = new BlobStore(options.directory);
    this.#options = options;
    this.#context = {
      store,
      records: new ImageRecords(store),
      now: options.now ?? (() => new Date()),
      maxDiskBytes: options.maxDiskBytes ?? defaultMaxDiskBytes,
    };
  }

  async pull(ref: string, options: PullOptions): Promise<Image> {
    const builtin = builtins[ref];
    if (builtin) return imageOf(await builtin(this.#context, this.#builtinOptions(options)));
    const image = tryReadImageUrl(ref);
    if (image) return imageOf(await pullUrl(this.#context, { image, name: ref }, options));
    const { source } = this.#options;
    if (!source)
      throw new Fault("notSupported", `"${ref}" is no URL and no file, and no registry is configured`);
    return imageOf(await pullFromRegistry({ ...this.#context, source }, ref, options));
  }

  async import(name: string, sources: readonly Readable[], options: Abortable): Promise<Image> {
    return imageOf(await importImage(this.#context, { name, sources }, options));
  }

  async list(_options: Abortable): Promise<readonly Image[]> {
    return (await this.#context.records.list()).map(imageOf);
  }

  async inspect(ref: string, _options: Abortable): Promise<Image> {
    return imageOf(await this.#find(ref));
  }

  async remove(ref: string, options: Abortable): Promise<void> {
    const record = await this.#find(ref);
    await using _lock = await this.#context.store.lock("commit", options);
    await this.#context.records.remove(record);
  }

  async resolve(ref: string, options: Abortable): Promise<BootableImage> {
    const record = await this.#find(ref);
    const { store } = this.#context;
    if (!(await store.has(record.disk.blob))) {
      throw new Fault("notFound", `the disk of image "${ref}" is missing: pull it again`);
    }
    const common = {
      image: imageOf(record),
      disk: {
        path: store.blobPath(record.disk.blob),
        format: record.disk.format,
        virtualBytes: record.disk.virtualBytes,
      },
      blobIds: [record.disk.blob],
      os: record.os,
      seed: record.os !== "windows",
      agent: record.os !== "windows",
    };
    if (record.boot !== "bundle") return { ...common, firmware: record.boot };
    const bundle = await ensureBootBundle({ ...this.#builtinOptions(options), store });
    const { kernelPath: path, initrdPath, commandLine } = bundle;
    return { ...common, firmware: "bios", kernel: { path, initrdPath, commandLine } };
  }

  async writeSeed(
    image: BootableImage,
    facts: SeedFacts,
    options: Abortable & { readonly path: string },
  ): Promise<void> {
    await writeSeedDisk(options.path, facts, await this.#seedReader(image, options));
  }

  async gc(options: Abortable): Promise<ImageGcReport> {
    const keep = new Set(await bootBuildKeys(this.#context.store));
    return collectGarbage(this.#context, keep, options);
  }

  async #seedReader(image: BootableImage, { signal }: Abortable): Promise<SeedReader> {
    if (!image.kernel) {
      const { store } = this.#context;
      return { kind: "cloudInit", agentProgram: await readFile(await ensureGuestProgram({ store, signal })) };
    }
    const record = await this.#context.records.tryFind([image.image.name, image.image.id]);
    return { kind: "cocoon", program: record?.program ?? noProgram };
  }

  async #find(ref: string): Promise<ImageRecord> {
    const record = await this.#context.records.tryFind([ref, ...this.#otherNames(ref)]);
    if (!record) throw new Fault("notFound", `image "${ref}" is not here: pull it first`);
    return record;
  }

  /** The full form of a registry reference. */
  #otherNames(ref: string): string[] {
    if (!this.#options.source || builtins[ref] || tryReadImageUrl(ref)) return [];
    try {
      return [this.#options.source.normalise(ref)];
    } catch {
      return []; // not a reference: then it is a name or a digest, or nothing
    }
  }

  #builtinOptions(options: Partial<PullOptions> & Abortable): BuiltinOptions {
    const { onStep } = this.#options;
    return {
      signal: options.signal,
      refresh: options.force ?? false,
      ...(onStep ? { onProgress: onStep } : {}),
    };
  }
}
