/**
 * Machines in the registry: what sleeps there, bringing them there and back. Every method throws when the registry
 * could not be asked; `undefined` means that it was asked and has nothing.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  hibernateTag,
  manifestAnnotation,
  tryParseImageReference,
  type ArtifactKind,
} from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import {
  deleteByDigest,
  kindOf,
  openSnapshotClient,
  readSnapshot,
  retag,
  type Registry,
  type SnapshotClient,
  type SnapshotFormat,
} from "@cocoon/oci";
import type { Snapshot, VmRuntime } from "@cocoon/vm";
import type { VkMetrics } from "./metrics.ts";
import type { SleepingSnapshot } from "./provider/plan.ts";

/** Set by the node that put the machine to sleep, after its VM was removed: nothing else runs that machine. */
const sealTag = "hibernated";

export interface SnapshotsOptions {
  readonly registry: Registry;
  readonly runtime: VmRuntime;
  readonly node: string;
  /** Where pulled snapshots grow; emptied at start. */
  readonly stagingDirectory: string;
  readonly format: SnapshotFormat;
  readonly metrics: VkMetrics;
  readonly transfers?: number;
  readonly memoryBytes?: number;
  /** Pulls have a budget of their own: waking must not wait for a push. */
  readonly pullMemoryBytes?: number;
  readonly level?: number;
  readonly chunkBytes?: number;
}

export interface PushRequest extends Abortable {
  readonly vmName: string;
  /** Local snapshot. */
  readonly snapshot: string;
  readonly tag: string;
  readonly baseImage: string;
}

export class Snapshots implements AsyncDisposable {
  readonly #options: SnapshotsOptions;
  readonly #pusher: SnapshotClient;
  readonly #puller: SnapshotClient;

  constructor(
    options: SnapshotsOptions,
    { pusher, puller }: { readonly pusher: SnapshotClient; readonly puller: SnapshotClient },
  ) {
    this.#options = options;
    this.#pusher = pusher;
    this.#puller = puller;
  }

  /** What the machine sleeps in. */
  sleeping(vmName: string, options: Abortable): Promise<SleepingSnapshot | undefined> {
    return this.named(vmName, hibernateTag, options);
  }

  async named(vmName: string, tag: string, { signal }: Abortable): Promise<SleepingSnapshot | undefined> {
    const repository = this.#options.registry.repository(vmName);
    try {
      const { digest, manifest, config } = await readSnapshot(repository, tag, { signal });
      return {
        digest,
        snapshotId: config.snapshotId,
        fromNode: manifest.annotations?.[manifestAnnotation.fromNode] ?? "",
        baseImage: manifest.annotations?.[manifestAnnotation.baseImage] ?? "",
      };
    } catch (error) {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    }
  }

  async sealedDigest(vmName: string, { signal }: Abortable): Promise<string | undefined> {
    const head = await this.#options.registry.repository(vmName).headManifest(sealTag, { signal });
    return head?.digest;
  }

  async seal(vmName: string, digest: string, { signal }: Abortable): Promise<void> {
    await retag({
      repository: this.#options.registry.repository(vmName),
      from: digest,
      to: sealTag,
      signal,
    });
  }

  /** Returns the digest after the registry was asked for the tag once more and named it. */
  async push({ vmName, snapshot, tag, baseImage, signal }: PushRequest): Promise<string> {
    const { registry, runtime, node, format, metrics, level, chunkBytes } = this.#options;
    const repository = registry.repository(vmName);
    const took = metrics.pushSeconds.startTimer();
    try {
      const report = await runtime.snapshots.withFiles(
        snapshot,
        ({ envelope, files }) =>
          this.#pusher.push({
            source: { envelope, files },
            repository,
            tag,
            format,
            annotations: { [manifestAnnotation.fromNode]: node },
            ...(baseImage === "" ? {} : { baseImage }),
            ...(level === undefined ? {} : { level }),
            ...(chunkBytes === undefined ? {} : { chunkBytes }),
            signal,
          }),
        { signal },
      );
      const head = await repository.headManifest(tag, { signal });
      if (head?.digest !== report.digest)
        throw new Fault(
          "conflict",
          `pushed ${report.digest} to ${vmName}:${tag}, but the registry names ${head?.digest ?? "nothing"}`,
        );
      metrics.push.inc({ result: "ok" });
      took();
      return report.digest;
    } catch (error) {
      metrics.push.inc({ result: "failed" });
      throw error;
    }
  }

  /** Makes the snapshot local under that name; one that is there already and is the same is used as it is. */
  async ensureLocal(
    source: { readonly repository: string; readonly reference: string },
    name: string,
    { signal }: Abortable,
  ): Promise<Snapshot> {
    const { registry, runtime, metrics } = this.#options;
    const repository = registry.repository(source.repository);
    try {
      const { config, digest } = await readSnapshot(repository, source.reference, { signal });
      const there = await findSnapshot(runtime, name, { signal });
      // An import has an id of its own; what it came from stands in its description.
      if (there && (there.id === config.snapshotId || there.description === digest)) {
        metrics.pull.inc({ result: "ok" });
        return there;
      }
      if (there) await runtime.snapshots.remove(there.id, { signal });
      const took = metrics.pullSeconds.startTimer();
      const pulled = await this.#pull({ ...source, reference: digest }, name, signal);
      took();
      metrics.pull.inc({ result: "ok" });
      return pulled;
    } catch (error) {
      metrics.pull.inc({ result: "failed" });
      throw error;
    }
  }

  async #pull(
    source: { readonly repository: string; readonly reference: string },
    name: string,
    signal: AbortSignal,
  ): Promise<Snapshot> {
    const { registry, runtime, stagingDirectory } = this.#options;
    const work = await mkdtemp(join(stagingDirectory, "pull-"));
    try {
      const directory = join(work, "snapshot");
      const repository = registry.repository(source.repository);
      await this.#puller.pull({ repository, reference: source.reference, directory, name, signal });
      return await runtime.snapshots.importDirectory(directory, {
        name,
        description: source.reference,
        consume: true,
        signal,
      });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  /** Removes what the machine was restored from; gone already is as good. */
  async drop(vmName: string, digest: string, { signal }: Abortable): Promise<void> {
    await deleteByDigest(this.#options.registry.repository(vmName), digest, { signal });
  }

  /** What an image reference names in this registry; undefined when it names nothing here. */
  async kindOf(image: string, { signal }: Abortable): Promise<ArtifactKind | undefined> {
    const reference = tryParseImageReference(image);
    if (!reference || reference.kind !== "registry" || reference.registry !== undefined) return undefined;
    const repository = this.#options.registry.repository(reference.repository);
    const name = reference.digest ?? reference.tag ?? "latest";
    try {
      return kindOf((await repository.getManifest(name, { signal })).bytes);
    } catch (error) {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#pusher[Symbol.asyncDispose](), this.#puller[Symbol.asyncDispose]()]);
  }
}

export async function openSnapshots(options: SnapshotsOptions): Promise<Snapshots> {
  await rm(options.stagingDirectory, { recursive: true, force: true });
  await mkdir(options.stagingDirectory, { recursive: true, mode: 0o700 });
  const open = (memoryBytes: number | undefined) =>
    openSnapshotClient({
      ...(options.transfers === undefined ? {} : { transfers: options.transfers }),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    });
  const [pusher, puller] = await Promise.all([open(options.memoryBytes), open(options.pullMemoryBytes)]);
  return new Snapshots(options, { pusher, puller });
}

/** Exactly that name: a reference may also be an id or the beginning of one. */
export async function findSnapshot(
  runtime: VmRuntime,
  name: string,
  { signal }: Abortable,
): Promise<Snapshot | undefined> {
  try {
    const found = await runtime.snapshots.inspect(name, { signal });
    return found.name === name ? found : undefined;
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}
