/**
 * The images of a host: `ImageStore` over a directory. Names are tried in this order: images that we build ourselves,
 * URLs and files, OCI layouts in a directory, registries.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { Fault, withDeadline, type Abortable } from "@cocoon/core";
import { ensureGuestProgram } from "./guest/guest-program.ts";
import { writeSeedDisk, type SeedReader } from "./guest/seed.ts";
import type { BootableImage, Image, ImageGcReport, ImageStore, PullOptions, SeedFacts } from "@cocoon/vm";
import { BlobStore } from "./blob-store.ts";
import { bootBuildKeys, ensureBootBundle } from "./boot-bundle.ts";
import { baseImageName, ensureBaseRecord } from "./builtin/base-image.ts";
import { debianImageName, ensureDebianRecord } from "./builtin/debian-image.ts";
import { demoImageName, ensureDemoRecord, type BuiltinOptions } from "./builtin/demo-image.ts";
import { tryReadImageUrl } from "./cloud/image-url.ts";
import { pullUrl } from "./cloud/pull-url.ts";
import type { ImageContext } from "./image-files.ts";
import { collectGarbage } from "./image-gc.ts";
import { noProgram, toImage, ImageRecords, type ImageRecord } from "./image-record.ts";
import type { ImageSource } from "./image-source.ts";
import { assertFileAllowed, type ImagePolicy } from "./image-policy.ts";
import { importImage } from "./import-image.ts";
import { layoutSource, tryReadLayoutName } from "./container/oci-layout.ts";
import { pullFromRegistry } from "./container/pull-registry.ts";

export interface ImageLibraryOptions {
  /** Everything is kept below it. Several processes may use it at once. */
  readonly directory: string;
  /** Registries; without it only URLs, files and built-in images can be pulled. */
  readonly source?: ImageSource;
  readonly maxDiskBytes?: number;
  /** Longest time that a pull may take, retries included. */
  readonly maxPullMs?: number;
  /** Absent: images may come from anywhere. */
  readonly policy?: ImagePolicy;
  readonly now?: () => Date;
}

const defaultMaxPullMs = 6 * 3_600_000;
const defaultMaxDiskBytes = 256 * 2 ** 30;

const builtins: Readonly<
  Record<string, (context: ImageContext, options: BuiltinOptions) => Promise<ImageRecord>>
> = {
  [demoImageName]: ensureDemoRecord,
  [baseImageName]: ensureBaseRecord,
  [debianImageName]: ensureDebianRecord,
};
export const builtInImageNames: readonly string[] = Object.keys(builtins);

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
      ...(options.policy ? { policy: options.policy } : {}),
    };
  }

  async pull(ref: string, options: PullOptions): Promise<Image> {
    const { maxPullMs = defaultMaxPullMs } = this.#options;
    const signal = withDeadline(options.signal, maxPullMs);
    try {
      return await this.#pull(ref, { ...options, signal });
    } catch (error) {
      if (options.signal.aborted || !signal.aborted) throw error;
      throw new Fault("timeout", `image ${ref} was not complete after ${maxPullMs / 1000} s`, {
        cause: error,
      });
    }
  }

  async #pull(ref: string, options: PullOptions): Promise<Image> {
    const builtin = builtins[ref];
    if (builtin) {
      const { signal, force: refresh = false } = options;
      return toImage(await builtin(this.#context, { signal, refresh }));
    }
    const image = tryReadImageUrl(ref);
    if (image) return toImage(await pullUrl(this.#context, { image, name: ref }, options));
    const layout = tryReadLayoutName(ref);
    if (layout) await assertFileAllowed(join(layout.directory, "index.json"), this.#options.policy);
    const source = layout ? layoutSource : this.#options.source;
    if (!source)
      throw new Fault("notSupported", `"${ref}" is no URL and no file, and no registry is configured`);
    return toImage(await pullFromRegistry({ ...this.#context, source }, ref, options));
  }

  async import(name: string, sources: readonly Readable[], options: Abortable): Promise<Image> {
    return toImage(await importImage(this.#context, { name, sources }, options));
  }

  async list(_options: Abortable): Promise<readonly Image[]> {
    return (await this.#context.records.list()).map(toImage);
  }

  async inspect(ref: string, _options: Abortable): Promise<Image> {
    return toImage(await this.#find(ref));
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
      image: toImage(record),
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
    const bundle = await ensureBootBundle({ signal: options.signal, store });
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
}
