/**
 * Finds damaged content before a machine needs it: reads every blob and compares it with its digest. A blob that is damaged
 * is read once more, then repaired where its own bytes are all there, else recorded: it counts as missing, so that the next
 * push of it stores the right content. Nothing is deleted.
 */
import { Fault, getErrorMessage, sleep, type Logger } from "@cocoon/core";
import type { ManifestStore } from "../content/manifest-store.ts";
import type { SweepGate } from "../content/sweep-gate.ts";
import type { Digest, RepositoryName } from "../names.ts";
import { folders, lastPart, readName } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";
import type { DamagedBlobs } from "./damage.ts";
import { tryRepairBlob } from "./repair-blob.ts";
import { verifyBlob } from "./verify-blob.ts";

interface ScrubberOptions {
  readonly storage: Storage;
  readonly manifests: ManifestStore;
  readonly damaged: DamagedBlobs;
  readonly gate: SweepGate;
  readonly directory: string;
  readonly log: Logger;
}

export interface ScrubRun {
  readonly signal: AbortSignal;
  /** Repair and record what is damaged; otherwise only report it. */
  readonly repair: boolean;
  readonly bytesPerSecond: number;
}

interface DamageReport {
  readonly digest: Digest;
  readonly sizeBytes: number;
  /** The size that manifests give; undefined when no manifest names the blob. */
  readonly expectedBytes: number | undefined;
  readonly outcome: "damaged" | "repaired";
  readonly repositories: readonly RepositoryName[];
}

export interface ScrubStatus {
  isRunning: boolean;
  startedAt: string | undefined;
  endedAt: string | undefined;
  blobs: number;
  bytes: number;
  /** Blobs that could not be read: nothing is known about them. */
  unreadable: number;
  readonly damaged: DamageReport[];
  problem: string | undefined;
}

interface Check extends ScrubRun {
  readonly status: ScrubStatus;
  readonly pace: (bytes: number) => Promise<void>;
  expectations?: Promise<Map<Digest, Expectation>>;
}

interface Expectation {
  readonly sizeBytes: number;
  readonly repositories: Set<RepositoryName>;
}

/** Reports of one run are kept up to this number; all of them are in the log. */
const maxReports = 1_000;

export class Scrubber {
  readonly #options: ScrubberOptions;
  readonly totals = { blobs: 0, damaged: 0, repaired: 0 };
  #status = newStatus(false);

  constructor(options: ScrubberOptions) {
    this.#options = options;
  }

  get status(): Readonly<ScrubStatus> {
    return this.#status;
  }

  /** One run at a time; a second one is refused with `conflict`. */
  async run(run: ScrubRun): Promise<Readonly<ScrubStatus>> {
    if (this.#status.isRunning) throw new Fault("conflict", "a check of the content is already running");
    const status = newStatus(true);
    this.#status = status;
    try {
      await this.#checkAll({ ...run, status, pace: createPacer(run) });
    } catch (error) {
      status.problem = getErrorMessage(error);
      throw error;
    } finally {
      status.isRunning = false;
      status.endedAt = new Date().toISOString();
    }
    return status;
  }

  async #checkAll(check: Check): Promise<void> {
    for (const prefix of folders.blobs)
      for await (const { key } of this.#options.storage.list(prefix)) {
        check.signal.throwIfAborted();
        const digest = readName.digest(key.slice("blobs/".length).replace("/", "-"));
        if (!digest) continue;
        await this.#check(digest, check);
        check.status.blobs += 1;
        this.totals.blobs += 1;
      }
  }

  async #check(digest: Digest, check: Check): Promise<void> {
    const { storage, gate, log } = this.#options;
    const { signal, status } = check;
    const pace = async (bytes: number) => {
      status.bytes += bytes;
      await check.pace(bytes);
    };
    try {
      if ((await verifyBlob(storage, digest, { signal, pace })).kind !== "damaged") return;
      // Memory and networks fail too: what counts is what a second read finds, while no push replaces the content.
      await gate.use(digest, async () => {
        const again = await verifyBlob(storage, digest, { signal });
        if (again.kind === "damaged") await this.#report(digest, again.sizeBytes, check);
      });
    } catch (error) {
      signal.throwIfAborted();
      status.unreadable += 1;
      log.warn({ digest, error: getErrorMessage(error) }, "blob could not be checked");
    }
  }

  async #report(digest: Digest, sizeBytes: number, check: Check): Promise<void> {
    const { storage, damaged, directory, log } = this.#options;
    check.expectations ??= this.#findExpectations();
    const expected = (await check.expectations).get(digest);
    const options = { digest, sizeBytes: expected?.sizeBytes, directory, signal: check.signal };
    const isRepaired = check.repair && (await tryRepairBlob(storage, options));
    if (isRepaired) await damaged.clear(digest);
    else if (check.repair) await damaged.record(digest, `${sizeBytes} bytes that do not have this digest`);
    const report: DamageReport = {
      digest,
      sizeBytes,
      expectedBytes: expected?.sizeBytes,
      outcome: isRepaired ? "repaired" : "damaged",
      repositories: [...(expected?.repositories ?? [])].sort(),
    };
    this.totals[report.outcome] += 1;
    if (check.status.damaged.length < maxReports) check.status.damaged.push(report);
    log.error({ ...report }, isRepaired ? "damaged blob repaired" : "damaged blob found");
  }

  /** What manifests say about blobs; only read when there is damage. */
  async #findExpectations(): Promise<Map<Digest, Expectation>> {
    const { storage, manifests, log } = this.#options;
    const found = new Map<Digest, Expectation>();
    for await (const { key } of storage.list(folders.allManifests)) {
      const [, folder = ""] = key.split("/");
      const [name, digest] = [readName.repository(folder), readName.digest(lastPart(key))];
      if (!name || !digest) continue;
      try {
        const manifest = await (await manifests.get(name, digest))?.manifest();
        for (const each of [manifest?.config ?? [], manifest?.layers ?? []].flat()) {
          const known = found.get(each.digest) ?? { sizeBytes: each.size, repositories: new Set() };
          known.repositories.add(name);
          found.set(each.digest, known);
        }
      } catch (error) {
        log.warn({ repo: name, digest, error: getErrorMessage(error) }, "manifest could not be read");
      }
    }
    return found;
  }
}

/** Waits as long as reading must to stay below the rate. */
function createPacer({ bytesPerSecond, signal }: ScrubRun): (bytes: number) => Promise<void> {
  const startedMs = performance.now();
  let total = 0;
  return async (bytes) => {
    if (bytesPerSecond === 0) return;
    total += bytes;
    const dueMs = (total / bytesPerSecond) * 1_000 - (performance.now() - startedMs);
    if (dueMs > 0) await sleep(dueMs, { signal });
  };
}

function newStatus(isRunning: boolean): ScrubStatus {
  return {
    isRunning,
    startedAt: isRunning ? new Date().toISOString() : undefined,
    endedAt: undefined,
    blobs: 0,
    bytes: 0,
    unreadable: 0,
    damaged: [],
    problem: undefined,
  };
}
