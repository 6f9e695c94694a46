/**
 * Snapshots between this node's runtime and the registry: pushed from local files, pulled into the runtime. What is in the
 * registry is `MachineSnapshots`; this adds the local side.
 */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { hibernateTag, latestTag, tryParseImageReference } from "@cocoon/contract";
import { snapshotReference } from "@cocoon/contract/legacy";
import { Fault, isFault, type Abortable, ignoreFault } from "@cocoon/core";
import { MachineSnapshots, type PushRequest } from "@cocoon/machine";
import {
  openCloudImage,
  openSnapshotClient,
  readSnapshot,
  type BaseReference,
  type OnProgress,
  type PushReport,
  type Registry,
  type SnapshotClient,
  type SnapshotFormat,
  type StoreStats,
} from "@cocoon/oci";
import type { LiveFiles, Snapshot, VmRuntime } from "@cocoon/vm";
import type { VkMetrics } from "./metrics.ts";
import { SingleFlight } from "./single-flight.ts";

export interface NodeSnapshotsOptions {
  readonly registry: Registry;
  readonly runtime: VmRuntime;
  readonly node: string;
  /** Holds `vk-staging`, where pulled snapshots grow, emptied at start, and `chunks`, the node's chunk store. */
  readonly directory: string;
  /** Limit of the chunk store: content of packed snapshots that is neither sent nor fetched again. */
  readonly chunkStoreBytes: number;
  readonly format: SnapshotFormat;
  readonly metrics: VkMetrics;
  readonly transfers?: number;
  readonly memoryBytes?: number;
  /** Pulls have a budget of their own: waking must not wait for a push. */
  readonly pullMemoryBytes?: number;
  readonly level?: number;
  readonly chunkBytes?: number;
}

export interface LocalPush extends Abortable {
  readonly vmName: string;
  readonly namespace: string;
  readonly tag: string;
  readonly baseImage: string;
  readonly restoredFrom: string;
  readonly vmId: string;
  /** Name of the local snapshot; the machine's when not set. */
  readonly localName?: string;
  readonly onProgress?: OnProgress;
}

type PullOptions = Abortable & Pick<LocalPush, "onProgress">;

interface Source {
  readonly repository: string;
  readonly reference: string;
  /** VMs on this node may read another snapshot of that name: it stays, and the new one gets a name of its own. */
  readonly keepOlder?: boolean;
}

/** A pause for less than that is short: copying and reading all memory twice costs more. */
const worthPushingAhead = 32 * 1024 * 1024;

export class NodeSnapshots implements AsyncDisposable {
  readonly inRegistry: MachineSnapshots;
  readonly #options: NodeSnapshotsOptions;
  readonly #pusher: SnapshotClient;
  readonly #puller: SnapshotClient;
  readonly #pulls = new SingleFlight<Snapshot>();
  /** Digests of bases that a machine was cloned from lazily. */
  readonly #used = new Set<string>();

  constructor(
    options: NodeSnapshotsOptions,
    { pusher, puller }: { readonly pusher: SnapshotClient; readonly puller: SnapshotClient },
  ) {
    this.inRegistry = new MachineSnapshots({ registry: options.registry });
    this.#options = options;
    this.#pusher = pusher;
    this.#puller = puller;
  }

  /** Pushes the local snapshot that has the machine's name; resolves once the registry named its digest. */
  async push({ vmName, localName = vmName, signal, ...request }: LocalPush): Promise<PushReport> {
    const { runtime, metrics } = this.#options;
    const stopTimer = metrics.snapshot_push_duration_seconds.startTimer();
    try {
      const report = await runtime.snapshots.withFiles(
        localName,
        (source) => this.inRegistry.push(this.#describePush({ ...request, vmName, signal }, source)),
        { signal },
      );
      metrics.snapshot_push_total.inc({ result: "ok" });
      metrics.snapshot_verify_total.inc({ result: "ok" });
      this.#countSent(report);
      stopTimer();
      return report;
    } catch (error) {
      metrics.snapshot_push_total.inc({ result: "failed" });
      // A tag that names another digest after the push, against a push that was not verified at all.
      metrics.snapshot_verify_total.inc({ result: isFault(error, "conflict") ? "stale" : "error" });
      throw error;
    }
  }

  /** Whether this process was not asked for that snapshot before. */
  isFirstUse(digest: string): boolean {
    if (this.#used.has(digest)) return false;
    this.#used.add(digest);
    return true;
  }

  /** Only packed snapshots share content with what was sent before. */
  get canPushAhead(): boolean {
    const { format, runtime } = this.#options;
    return format === "packed" && runtime.snapshots.withLiveFiles !== undefined;
  }

  /**
   * Sends what a running VM has now, as the machine's anchor: its next snapshot then sends what changed since. Undefined when
   * little would be gained.
   */
  async pushAhead({ vmName, signal, ...request }: LocalPush): Promise<PushReport | undefined> {
    const { runtime } = this.#options;
    const report = await runtime.snapshots.withLiveFiles?.(
      vmName,
      (source) => this.inRegistry.push(this.#describePush({ ...request, vmName, signal }, source)),
      { leastBytes: worthPushingAhead, signal },
    );
    if (report) this.#countSent(report);
    return report;
  }

  #describePush({ vmName, ...request }: LocalPush, { envelope, files }: LiveFiles): PushRequest {
    const { node, format, level, chunkBytes } = this.#options;
    return {
      ...request,
      client: this.#pusher,
      source: { envelope, files },
      vmName,
      node,
      format,
      base: this.#findBase(request.baseImage),
      pinFor: vmName,
      ...(level === undefined ? {} : { level }),
      ...(chunkBytes === undefined ? {} : { chunkBytes }),
    };
  }

  #countSent({ bytesSent, bytesReused }: PushReport): void {
    const { snapshot_bytes_total } = this.#options.metrics;
    snapshot_bytes_total.inc({ direction: "push", how: "network" }, bytesSent);
    snapshot_bytes_total.inc({ direction: "push", how: "reused" }, bytesReused);
  }

  /** `host/prefix/vk-lab-atlas-0:hibernate`. */
  formatReference(vmName: string): string {
    const { origin, prefix } = this.#options.registry.address;
    return snapshotReference([origin, prefix].filter((part) => part !== "").join("/"), vmName, hibernateTag);
  }

  /** The disk of a cloud image in the snapshots' registry, with a name that changes with its content. */
  async openDisk(
    image: string,
    { signal }: Abortable,
  ): Promise<{ readonly name: string; readonly content: AsyncIterable<Uint8Array> }> {
    const parsed = tryParseImageReference(image);
    if (parsed?.kind !== "registry") throw new Fault("invalid", `${image} is not a name in a registry`);
    const { repository: path, digest: pinned, tag = latestTag } = parsed;
    const repository = this.#options.registry.repository(path);
    const opened = await openCloudImage({ repository, reference: pinned ?? tag, signal });
    return { name: `${path}:${opened.digest.slice(7, 19)}`, content: opened.content };
  }

  /** The snapshot that a machine was cloned from, where the image names one in this registry. */
  #findBase(image: string): readonly BaseReference[] {
    const named = tryParseImageReference(image);
    if (named?.kind !== "registry" || named.registry !== undefined) return [];
    const repository = this.#options.registry.repository(named.repository);
    return [{ repository, reference: named.digest ?? named.tag ?? latestTag }];
  }

  /** Gives free what is kept for machines that are not on this node any more. */
  unpin(isGone: (vmName: string) => boolean): void {
    const { store } = this.#pusher;
    for (const owner of store?.owners() ?? []) if (isGone(owner)) store?.unpin(owner);
  }

  get chunkStats(): StoreStats | undefined {
    return this.#pusher.store?.stats();
  }

  /**
   * Makes the snapshot local under that name; one that is there already and is the same is used as it is. Several machines
   * that need one base share one download.
   */
  ensureLocal(source: Source, name: string, { signal, ...options }: PullOptions): Promise<Snapshot> {
    return this.#pulls.run(name, { signal }, (shared) =>
      this.#ensureLocal(source, name, { ...options, ...shared }),
    );
  }

  async #ensureLocal(source: Source, name: string, options: PullOptions): Promise<Snapshot> {
    const { signal } = options;
    const { registry, runtime, metrics } = this.#options;
    try {
      const repository = registry.repository(source.repository);
      const { config, digest } = await readSnapshot(repository, source.reference, { signal });
      const names = source.keepOlder ? [name, `${name.slice(0, 50)}-${digest.slice(7, 19)}`] : [name];
      const locals = await Promise.all(names.map((each) => findLocalSnapshot(runtime, each, { signal })));
      // An imported snapshot has an id of its own; its description is the digest it came from.
      const same = locals.find((local) => local?.id === config.snapshotId || local?.description === digest);
      if (same) {
        metrics.snapshot_pull_total.inc({ result: "ok" });
        return same;
      }
      const [older] = locals;
      if (older && !source.keepOlder) await runtime.snapshots.remove(older.id, { signal });
      const free = (older && names[1]) || name;
      const stopTimer = metrics.snapshot_pull_duration_seconds.startTimer();
      const pulled = await this.#pull({ ...source, reference: digest }, free, options);
      stopTimer();
      metrics.snapshot_pull_total.inc({ result: "ok" });
      return pulled;
    } catch (error) {
      metrics.snapshot_pull_total.inc({ result: "failed" });
      throw error;
    }
  }

  async #pull(source: Source, name: string, options: PullOptions): Promise<Snapshot> {
    const { registry, runtime, metrics } = this.#options;
    const work = await mkdtemp(join(getStagingDirectory(this.#options), "pull-"));
    try {
      const directory = join(work, "snapshot");
      const repository = registry.repository(source.repository);
      const { reference } = source;
      const report = await this.#puller.pull({ repository, reference, directory, name, ...options });
      metrics.snapshot_bytes_total.inc({ direction: "pull", how: "network" }, report.bytesFetched);
      metrics.snapshot_bytes_total.inc({ direction: "pull", how: "reused" }, report.bytesReused);
      return await runtime.snapshots.importDirectory(directory, {
        name,
        description: source.reference,
        consume: true,
        signal: options.signal,
      });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#pusher[Symbol.asyncDispose](), this.#puller[Symbol.asyncDispose]()]);
  }
}

function getStagingDirectory({ directory }: Pick<NodeSnapshotsOptions, "directory">): string {
  return join(directory, "vk-staging");
}

export async function openNodeSnapshots(options: NodeSnapshotsOptions): Promise<NodeSnapshots> {
  const staging = getStagingDirectory(options);
  await rm(staging, { recursive: true, force: true });
  await mkdir(staging, { recursive: true, mode: 0o700 });
  const open = (memoryBytes: number | undefined) =>
    openSnapshotClient({
      store: { directory: join(options.directory, "chunks"), limitBytes: options.chunkStoreBytes },
      ...(options.transfers === undefined ? {} : { transfers: options.transfers }),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
    });
  const [pusher, puller] = await Promise.all([open(options.memoryBytes), open(options.pullMemoryBytes)]);
  return new NodeSnapshots(options, { pusher, puller });
}

/** Exactly that name: a reference may also be an id or the beginning of one. */
export async function findLocalSnapshot(
  runtime: VmRuntime,
  name: string,
  { signal }: Abortable,
): Promise<Snapshot | undefined> {
  const found = await ignoreFault("notFound", runtime.snapshots.inspect(name, { signal }));
  return found?.name === name ? found : undefined;
}

/** Not there is success. */
export async function dropLocalSnapshot(runtime: VmRuntime, name: string, options: Abortable): Promise<void> {
  const local = await findLocalSnapshot(runtime, name, options);
  if (!local) return;
  await ignoreFault("notFound", runtime.snapshots.remove(local.id, options));
}
