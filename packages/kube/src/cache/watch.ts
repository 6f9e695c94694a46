/**
 * A watch that never gives up: the objects of a kind as they are, then every change, until the signal aborts.
 *
 *   relisting, listed…, synced      everything that exists, as one consistent set
 *   applied | deleted               changes after it, each once and in order
 *   relisting, …                    again from the start, when the server no longer has the history (410)
 *
 * A broken connection is reopened where it stood, after a check that the server's version is not behind ours: after a restore of
 * etcd it would stay silent until its versions have passed ours. Where the server may have been away unseen, everything is listed
 * again: it did not answer, the connection was silent, or this process stood still. What the consumer throws ends the iteration.
 */
import {
  Backoff,
  Fault,
  isFault,
  getErrorMessage,
  silentLogger,
  sleep,
  toFault,
  type FaultCode,
  type Logger,
} from "@cocoon/core";
import type { ByteStream, KubeConnection } from "../client/client.ts";
import { IdleGuard } from "./idle-guard.ts";
import { Standstill } from "./standstill.ts";
import {
  LineSplitter,
  readFrame,
  readPage,
  type Frame,
  type FrameContext,
  type MalformedFrame,
  type ObjectFrame,
} from "./watch-frames.ts";
import {
  formatApiVersion,
  resourceName,
  type KubeObject,
  type ResourceType,
  includesVersion,
} from "../object.ts";
import { PageTexts } from "./page-texts.ts";
import { collectionPath, queryText } from "../client/request-path.ts";
import {
  watchDefaults,
  type ListMethod,
  type WatchBatch,
  type WatchEvent,
  type WatchOptions,
  type WatchTuning,
} from "./watch-options.ts";

export async function* watch<T extends KubeObject>(
  client: KubeConnection,
  type: ResourceType<T>,
  options: WatchOptions<T>,
): AsyncGenerator<WatchEvent<T>, void, undefined> {
  for await (const batch of watchBatches(client, type, options)) yield* batch.events;
}

export function watchBatches<T extends KubeObject>(
  client: KubeConnection,
  type: ResourceType<T>,
  options: WatchOptions<T>,
): AsyncGenerator<WatchBatch<T>, void, undefined> {
  return new Watcher(client, type, options).run();
}

/** The server ends a watch after this long, up to twice that; connections so spread over its replicas again. */
const serverTimeoutSeconds = 300;
const maxPageBytes = 512 * 1024 * 1024;
/** A server that drops streaming lists half-way this often gets requests for pages instead. */
const mostBrokenStreams = 3;
/** A watch that ends sooner than this is a failure, not the end of its time; else we would open them in a tight loop. */
const tooShortMs = 1_000;
const failuresWorthAWarning = 3;
/** An answer that has not begun by then will not. */
const beginTimeoutMs = 30_000;

type Batches<T> = AsyncGenerator<WatchBatch<T>, void, undefined>;
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

class Watcher<T extends KubeObject> {
  readonly #client: KubeConnection;
  readonly #type: ResourceType<T>;
  readonly #options: WatchOptions<T>;
  readonly #tuning: Required<Omit<WatchTuning, "backoff">>;
  readonly #log: Logger;
  readonly #backoff: Backoff;
  readonly #context: FrameContext<T>;
  readonly #silence: Fault;
  /** Where the next watch goes on; undefined = everything must be listed again. */
  #version: string | undefined;
  /** When the last watch ended, until the next one is open: its server may have been restored meanwhile. */
  #endedAt: number | undefined;
  /** The server could not be reached since then, or its connection was silent. */
  #wasAway = false;
  #listMethod: ListMethod;
  #streamsRefused = false;
  #brokenStreams = 0;

  constructor(client: KubeConnection, type: ResourceType<T>, options: WatchOptions<T>) {
    this.#client = client;
    this.#type = type;
    this.#options = options;
    this.#tuning = { ...watchDefaults, ...options.tuning };
    this.#listMethod = this.#tuning.firstList;
    this.#silence = new Fault("timeout", `the server was silent for ${this.#tuning.idleTimeoutMs} ms`);
    this.#log = (options.log ?? silentLogger).child({ watch: resourceName(type) });
    this.#backoff = options.tuning?.backoff ?? new Backoff({ baseMs: 200, maxMs: 30_000, jitter: 0.5 });
    this.#context = {
      read: options.read ?? ((object) => object as T),
      managedFields: options.managedFields ?? true,
      common: { apiVersion: formatApiVersion(type), kind: type.kind },
      what: `watch ${type.plural}`,
    };
  }

  async *run(): Batches<T> {
    const { signal } = this.#options;
    using standstill = new Standstill(this.#tuning.unseenMs);
    while (!signal.aborted) {
      try {
        if (this.#endedAt !== undefined || this.#wasAway) await this.#checkHistory(standstill);
        if (this.#version !== undefined) yield* this.#events({ resourceVersion: this.#version });
        else if (this.#listMethod === "stream" && !this.#streamsRefused) yield* this.#streamedList();
        else yield* this.#pagedList();
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(toFault(error));
      }
    }
  }

  /**
   * A server that is behind our version has another history. One that was away and is not behind may have another one as
   * well: restored from an older copy, and written to since. Only a list shows what it lacks. While this process stood still,
   * or waited for an answer, the server may have been away as well.
   */
  async #checkHistory(standstill: Standstill): Promise<void> {
    const unseenMs = performance.now() - (this.#endedAt ?? Number.POSITIVE_INFINITY);
    if (standstill.take() || this.#wasAway || unseenMs > this.#tuning.unseenMs) this.#version = undefined;
    const version = this.#version;
    if (version !== undefined) {
      using texts = this.#pageTexts(1);
      const current = readPage(await texts.take(undefined), this.#context).resourceVersion;
      if (!includesVersion(current, version)) {
        this.#log.warn({ version, current }, "resource versions went backwards, listing again");
        this.#version = undefined;
      }
    }
    if (this.#version === undefined) this.#endedAt = undefined;
    this.#wasAway = false;
  }

  #pageTexts(limit: number): PageTexts {
    const { idleTimeoutMs, maxObjectBytes } = this.#tuning;
    return new PageTexts({
      open: (token, stop) => {
        const signal = AbortSignal.any([this.#options.signal, stop]);
        return this.#open({ verb: "list", query: { limit, continue: token }, signal });
      },
      maxBytes: Math.max(maxObjectBytes, maxPageBytes),
      idleTimeoutMs,
    });
  }

  /** The list goes over into the watch, on the same connection. */
  async *#streamedList(): Batches<T> {
    yield this.#batch([{ kind: "relisting" }]);
    yield* this.#events({ sendInitialEvents: true, resourceVersionMatch: "NotOlderThan" });
  }

  async *#pagedList(): Batches<T> {
    yield this.#batch([{ kind: "relisting" }]);
    using texts = this.#pageTexts(this.#tuning.pageSize);
    let version: string;
    let token: string | undefined;
    do {
      const page = readPage(await texts.take(token), this.#context);
      yield this.#batch(page.frames.map((frame) => this.#listed(frame)));
      ({ resourceVersion: version, continueToken: token } = page);
    } while (token !== undefined);
    this.#version = version;
    this.#works();
    yield this.#batch([{ kind: "synced", version }]);
  }

  async *#events(query: Query): Batches<T> {
    // Spread, so that not all watches of all clients come back in the same second.
    const timeoutSeconds = Math.round(serverTimeoutSeconds * (1 + Math.random()));
    const stream = await this.#open({
      verb: "watch",
      query: { watch: true, allowWatchBookmarks: true, timeoutSeconds, ...query },
      signal: this.#options.signal,
    });
    this.#endedAt = undefined;
    if (this.#version === undefined) this.#brokenStreams += 1; // until its end proves otherwise
    const lines = new LineSplitter(this.#tuning.maxObjectBytes);
    const started = performance.now();
    try {
      yield* this.#read(stream, (chunk, batch) => {
        for (const line of lines.push(chunk)) this.#take(readFrame(line, this.#context), batch);
      });
    } finally {
      this.#endedAt = performance.now();
    }
    // Half a line at the end is no event: it was not counted, so the server sends it again.
    if (this.#version === undefined) throw new Fault("unavailable", "the list ended before it was complete");
    if (performance.now() - started < tooShortMs)
      throw new Fault("unavailable", "the watch ended as soon as it began");
  }

  async *#read(stream: ByteStream, take: (chunk: Buffer, batch: WatchEvent<T>[]) => void): Batches<T> {
    using guard = new IdleGuard(this.#tuning.idleTimeoutMs, () => stream.cancel(this.#silence));
    for await (const chunk of stream.chunks) {
      guard.pause(); // while the consumer works, the silence is ours
      const before = this.#version;
      const events: WatchEvent<T>[] = [];
      try {
        take(chunk, events);
      } finally {
        // What came before an error counts.
        if (events.length > 0 || this.#version !== before) yield this.#batch(events);
      }
      guard.touch();
    }
  }

  #batch(events: readonly WatchEvent<T>[]): WatchBatch<T> {
    return { events, version: this.#version };
  }

  #take(frame: Frame<T>, batch: WatchEvent<T>[]): void {
    if (frame.kind === "error") throw frame.fault;
    const listing = this.#version === undefined;
    if (frame.kind === "bookmark") {
      if (listing && !frame.initialEnd) return;
      this.#version = frame.version;
      if (listing) batch.push({ kind: "synced", version: frame.version });
    } else {
      if (!listing) this.#version = frame.version ?? this.#version;
      if (frame.kind === "malformed") batch.push(this.#malformed(frame));
      else if (frame.kind === "deleted") batch.push({ kind: "deleted", object: frame.object });
      else batch.push({ kind: listing ? "listed" : "applied", object: frame.object });
    }
    if (this.#version !== undefined) this.#works();
  }

  #listed(frame: ObjectFrame<T> | MalformedFrame): WatchEvent<T> {
    return frame.kind === "malformed" ? this.#malformed(frame) : { kind: "listed", object: frame.object };
  }

  #malformed({ key, cause, gone }: MalformedFrame): WatchEvent<T> {
    this.#log.warn({ key, error: getErrorMessage(cause) }, "an object cannot be read and is passed over");
    return { kind: "malformed", key, cause, gone };
  }

  async #open(request: { verb: string; query: Query; signal: AbortSignal }): Promise<ByteStream> {
    const { verb, query, signal } = request;
    const { namespace, labelSelector, fieldSelector } = this.#options;
    const path =
      collectionPath(this.#type, namespace) + queryText({ ...query, labelSelector, fieldSelector });
    const timeoutMs = Math.min(beginTimeoutMs, this.#tuning.idleTimeoutMs);
    try {
      return await this.#client.stream({ path, signal, timeoutMs, verb, resource: resourceName(this.#type) });
    } catch (error) {
      if (isFault(error, "unavailable")) this.#wasAway = true;
      throw error;
    }
  }

  /** The server answers as it should: the next failure starts with a short back-off again. */
  #works(): void {
    if (this.#backoff.failures >= failuresWorthAWarning) this.#log.info("the watch works again");
    this.#backoff.reset();
    this.#brokenStreams = 0;
    this.#listMethod = "stream"; // when the history is lost all clients list at once, and a stream takes little memory
  }

  async #recover(fault: Fault): Promise<void> {
    if (this.#version === undefined && this.#refusesStreams(fault)) {
      this.#log.debug({ error: getErrorMessage(fault) }, "the server has no streaming lists, taking pages");
      this.#streamsRefused = true;
      return;
    }
    if (losesHistory(fault)) this.#version = undefined;
    if (fault === this.#silence && this.#version !== undefined) {
      // Bookmarks would have come: the connection was dead, and what happened to the server meanwhile is not known.
      this.#wasAway = true;
      this.#log.debug({ error: fault.message }, "the connection was silent, listing again");
      return; // it took its time already
    }
    const afterMs = Math.max(this.#backoff.nextMs(), fault.retryAfterMs ?? 0);
    const fields = { code: fault.code, error: getErrorMessage(fault), afterMs: Math.round(afterMs) };
    if (this.#backoff.failures === failuresWorthAWarning) this.#log.warn(fields, "the watch keeps failing");
    else this.#log.debug(fields, "the watch broke and is tried again");
    await sleep(afterMs, this.#options);
  }

  /** Outright, or by never bringing one to its end, as servers do that ignore what they do not know. */
  #refusesStreams(fault: Fault): boolean {
    if (this.#listMethod !== "stream" || this.#streamsRefused) return false;
    return (
      isFault(fault, "invalid") || isFault(fault, "badRequest") || this.#brokenStreams >= mostBrokenStreams
    );
  }
}

/** These say nothing about the history; after all others the server may have forgotten where we were. */
const harmless: ReadonlySet<FaultCode> = new Set([
  "unavailable",
  "timeout",
  "tooManyRequests",
  "internal",
  "unauthorized",
  "forbidden",
]);

function losesHistory(fault: Fault): boolean {
  // The server is behind what we have seen: its storage was restored from an older copy.
  const behind = fault.causes.some((cause) => cause.reason === "ResourceVersionTooLarge");
  return behind || !harmless.has(fault.code);
}
