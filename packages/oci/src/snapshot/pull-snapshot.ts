/** Pulls a snapshot into a directory: its files, sparse, and `snapshot.json`. All of it is checked, or nothing is there. */
import { mkdtemp, open, rm, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  assemblePackedSnapshot,
  assembleSnapshot,
  envelopeFromConfig,
  formatSnapshotEnvelope,
  type SnapshotEnvelope,
} from "@cocoon/contract";
import { Fault, type Abortable, ignoreMissing } from "@cocoon/core";
import { ChunkStore } from "../chunks/chunk-store.ts";
import { indexLimitBytes, readIndex, type SnapshotIndex } from "../packed/index-codec.ts";
import { pullPacks, type BuiltFile } from "../packed/pull-packs.ts";
import type { Repository } from "../registry/repository.ts";
import { forEachParallel } from "../work/parallel.ts";
import { startDirectory, type DirectoryBuild } from "./build-directory.ts";
import { Meter, type OnProgress } from "./progress.ts";
import { pullPart, getPartShape } from "./pull-layers.ts";
import { asDamage, readSnapshot, type FoundSnapshot } from "./read-snapshot.ts";
import { dataBytes } from "./sparse-map.ts";
import type { Tools } from "./tools.ts";

export interface PullSnapshotOptions extends Abortable {
  readonly repository: Repository;
  /** Tag or digest. */
  readonly reference: string;
  /** Where the snapshot goes; must not exist. Its file system holds the work in progress as well. */
  readonly directory: string;
  /** Local name for `snapshot.json`. */
  readonly name?: string;
  /**
   * Directories with files of the same names that may hold much of the same content: the snapshot the machine was
   * cloned from. They are read, never trusted.
   */
  readonly similar?: readonly string[];
  /** Pin what this node keeps of the snapshot for that machine. */
  readonly pinFor?: string;
  readonly onProgress?: OnProgress;
}

export interface PullReport {
  readonly digest: string;
  readonly envelope: SnapshotEnvelope;
  /** Over the wire. */
  readonly bytesFetched: number;
  /** Bytes of the machine that were on this node. */
  readonly bytesReused: number;
  readonly bytesTotal: number;
}

export async function pullSnapshot(options: PullSnapshotOptions, tools: Tools): Promise<PullReport> {
  const { repository, reference, signal } = options;
  const found = await readSnapshot(repository, reference, { signal });
  await using build = await startDirectory(options.directory);
  const packed = found.config.schemaVersion === "packed-v1";
  const job = { ...tools, ...options };
  const counts = await asDamage(
    packed ? pullPacked(found, build, job) : pullParts(found, build, job),
    `${repository.name}@${found.digest}: a part of the snapshot is missing`,
  );
  const envelope = envelopeFromConfig(found.config, options.name ?? repository.name);
  await build.addEnvelope(formatSnapshotEnvelope(envelope));
  await build.finish();
  if (options.pinFor && tools.store) {
    const { layers } = found.manifest;
    tools.store.pin(options.pinFor, [found.digest, ...layers.map((each) => each.digest)]);
  }
  return { digest: found.digest, envelope, ...counts };
}

type Counts = Pick<PullReport, "bytesFetched" | "bytesReused" | "bytesTotal">;
type Job = Tools & PullSnapshotOptions;

async function pullParts(found: FoundSnapshot, build: DirectoryBuild, job: Job): Promise<Counts> {
  const parts = assembleSnapshot(found.manifest, found.config).map((part) => ({
    part,
    shape: getPartShape(part),
  }));
  const storedBytes = found.manifest.layers.reduce((sum, each) => sum + each.size, 0);
  const fetching = new Meter("fetching", storedBytes, job.onProgress);
  const writing = new Meter(
    "writing",
    parts.reduce((sum, each) => sum + dataBytes(each.shape.segments), 0),
    job.onProgress,
  );
  await forEachParallel(parts, 2, async ({ part, shape }) => {
    const handle = await build.add({ name: part.name, size: shape.size, mode: shape.mode });
    await pullPart(part, { fd: handle.fd, shape }, { ...job, fetching, writing });
  });
  const distinct = new Map(found.manifest.layers.map((each) => [each.digest, each.size]));
  const neededBytes = [...distinct.values()].reduce((sum, each) => sum + each, 0);
  return {
    bytesFetched: fetching.doneBytes,
    bytesReused: Math.max(0, neededBytes - fetching.doneBytes),
    bytesTotal: parts.reduce((sum, each) => sum + each.shape.size, 0),
  };
}

async function pullPacked(found: FoundSnapshot, build: DirectoryBuild, job: Job): Promise<Counts> {
  await using stack = new AsyncDisposableStack();
  const index = await readPackedIndex(found, job);
  const similar = await openSimilar(index, job.similar ?? []);
  for (const each of similar) stack.defer(() => each?.handle.close());
  const files: BuiltFile[] = [];
  for (const [number, file] of index.files.entries()) {
    const mode = found.config.files?.[file.name]?.mode ?? 0o640;
    const { fd } = await build.add({ name: file.name, size: file.size, mode });
    const like = similar[number];
    files.push(like ? { fd, similar: { fd: like.handle.fd, size: like.size } } : { fd });
  }
  const store = job.store ?? (await temporaryStore(job.directory, stack));
  const counts = await pullPacks({ ...job, index, files, store });
  return {
    bytesFetched: counts.fetchedBytes,
    bytesReused: counts.localBytes,
    bytesTotal: counts.totalBytes,
  };
}

/** The index, checked against the manifest and the config: three witnesses, one story. */
export async function readPackedIndex(
  found: FoundSnapshot,
  job: Pick<Job, "repository" | "store" | "signal">,
): Promise<SnapshotIndex> {
  const { index: layer, packs } = assemblePackedSnapshot(found.manifest, found.config);
  if (layer.size > indexLimitBytes) throw new Fault("tooLarge", `a snapshot index of ${layer.size} bytes`);
  const local = await job.store?.tryReadBlob(layer.digest);
  const bytes = local ?? (await job.repository.readBlob(layer, job));
  const index = readIndex(bytes);
  if (!local) await job.store?.addBlob(layer.digest, bytes);
  const listed = new Map(packs.map((each) => [each.digest, each.size]));
  const stray = index.packs.find((each) => listed.get(each.digest) !== each.size);
  if (stray) throw new Fault("invalid", `pack ${stray.digest} of the index is not listed in the manifest`);
  for (const file of index.files)
    if (found.config.files?.[file.name]?.size !== file.size)
      throw new Fault("invalid", `index and config do not agree about file "${file.name}"`);
  if (Object.keys(found.config.files ?? {}).length !== index.files.length)
    throw new Fault("invalid", "index and config do not list the same files");
  return index;
}

interface SimilarFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/** For each file of the snapshot the first file of that name in the given directories. */
async function openSimilar(
  index: SnapshotIndex,
  directories: readonly string[],
): Promise<(SimilarFile | undefined)[]> {
  const found: (SimilarFile | undefined)[] = [];
  for (const file of index.files) {
    let first: SimilarFile | undefined;
    for (const directory of directories) first ??= await tryOpen(join(directory, file.name));
    found.push(first);
  }
  return found;
}

async function tryOpen(path: string): Promise<SimilarFile | undefined> {
  const handle = await ignoreMissing(open(path, "r"));
  return handle && { handle, size: (await handle.stat()).size };
}

/** Without a store of the node, packs are kept for the length of this pull. */
async function temporaryStore(directory: string, stack: AsyncDisposableStack): Promise<ChunkStore> {
  const path = await mkdtemp(join(dirname(directory), ".packs-"));
  stack.defer(() => rm(path, { recursive: true, force: true }));
  return stack.use(await ChunkStore.open({ directory: path, limitBytes: Number.MAX_SAFE_INTEGER }));
}
