/**
 * Archives of COPY steps in the registry, where every replica finds them: an artifact each, tagged by namespace and hash, its
 * bytes in blobs of a few megabytes, so that an upload needs neither a disk nor much memory.
 */
import { emptyConfig, manifestAnnotation, manifestSchema, mediaType, type Manifest } from "@cocoon/contract";
import { getErrorMessage, ignoreFault, tryParseJson, type Abortable, type Logger } from "@cocoon/core";
import { computeDigest, deleteByDigest, toBlobContent, type Repository } from "@cocoon/oci";

export const archiveRepository = "cocoon-template-files";

export interface ArchiveName {
  readonly namespace: string;
  readonly hash: string;
}

interface StoredArchive {
  readonly digest: string;
  readonly bytes: number;
  readonly ageMs: number;
  readonly pieces: Manifest["layers"];
}

/** Longer than a build may take, from the moment when a client was told that the archive is present. */
const keepMs = 2 * 3_600_000;
const presentMs = keepMs / 2;

export class FileArchives {
  readonly #repository: Repository;
  readonly #log: Logger;
  readonly #now: () => number;

  // oxlint-disable-next-line max-params -- where, and the clock that a test replaces
  constructor(repository: Repository, log: Logger, now: () => number = Date.now) {
    this.#repository = repository;
    this.#log = log;
    this.#now = now;
  }

  /** Whether a build that begins now finds it. */
  async has(name: ArchiveName, options: Abortable): Promise<boolean> {
    const found = await this.#tryRead(formatTag(name), options);
    return found !== undefined && found.ageMs < presentMs;
  }

  /** Its bytes; undefined when no replica has taken it. */
  async tryOpen(name: ArchiveName, options: Abortable): Promise<AsyncIterable<Uint8Array> | undefined> {
    const found = await this.#tryRead(formatTag(name), options);
    return found && this.#readPieces(found.pieces, options);
  }

  async put(name: ArchiveName, pieces: AsyncIterable<Buffer>, options: Abortable): Promise<void> {
    const layers: Manifest["layers"] = [];
    for await (const bytes of pieces) {
      const digest = computeDigest(bytes);
      await this.#repository.putBlob(toBlobContent(bytes, digest), options);
      layers.push({ mediaType: mediaType.other, digest, size: bytes.length });
    }
    await this.#repository.putBlob(toBlobContent(Buffer.from("{}")), options);
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaType.ociManifest,
      artifactType: mediaType.templateFiles,
      config: emptyConfig,
      layers,
      // Two uploads of the same are two manifests: removing the older one leaves the newer.
      annotations: { [manifestAnnotation.created]: new Date(this.#now()).toISOString() },
    };
    const body = { bytes: Buffer.from(JSON.stringify(manifest)), mediaType: mediaType.ociManifest };
    await this.#repository.putManifest(formatTag(name), body, options);
  }

  /** Removes what is too old; what stays. The registry's garbage collection frees the blobs. */
  async sweep({ namespace, signal }: Abortable & { readonly namespace?: string }): Promise<StoredArchive[]> {
    const kept: StoredArchive[] = [];
    for await (const tag of this.#repository.tags({ signal })) {
      if (namespace !== undefined && !tag.startsWith(`${namespace}.`)) continue;
      const found = await this.#tryRead(tag, { signal });
      if (found && found.ageMs <= keepMs) kept.push(found);
      else if (found) await this.#tryDelete(found, { signal });
    }
    return kept;
  }

  async #tryDelete({ digest }: StoredArchive, options: Abortable): Promise<void> {
    try {
      await deleteByDigest(this.#repository, digest, options);
    } catch (error) {
      this.#log.warn({ digest, error: getErrorMessage(error) }, "an archive of a build was not removed");
    }
  }

  async #tryRead(tag: string, options: Abortable): Promise<StoredArchive | undefined> {
    const stored = await ignoreFault("notFound", this.#repository.getManifest(tag, options));
    const { data } = manifestSchema.safeParse(tryParseJson(stored?.bytes.toString("utf8") ?? ""));
    if (!stored || data?.artifactType !== mediaType.templateFiles) return undefined;
    const created = Date.parse(data.annotations?.[manifestAnnotation.created] ?? "");
    return {
      digest: stored.digest,
      bytes: data.layers.reduce((sum, { size }) => sum + size, 0),
      ageMs: this.#now() - (Number.isNaN(created) ? 0 : created),
      pieces: data.layers,
    };
  }

  async *#readPieces(pieces: Manifest["layers"], options: Abortable): AsyncGenerator<Uint8Array> {
    for (const { digest, size } of pieces) yield* this.#repository.openBlob({ digest, size }, options);
  }
}

/** At most 128 characters, as registries have it: names of namespaces have 63 at most. */
function formatTag({ namespace, hash }: ArchiveName): string {
  return `${namespace}.${hash}`;
}
