/**
 * The one writer of a pool in this process: group commit. All that waits is decided together against the same state,
 * goes out as one compare-and-swap write per shard (nearly always one), and is answered when the write is in. So this
 * process never conflicts with itself, and the number of writes does not grow with the number of pods.
 *
 * A write that finds another state than it was decided on changed nothing: the shard is looked at again and everything
 * is decided anew. A write whose answer was lost may have happened: then looking again finds the claim.
 */
import { Fault, getErrorMessage, toFault, type Logger } from "@cocoon/core";
import { findRival } from "./collisions.ts";
import { ClaimRound, type PlanContext } from "./claim-plan.ts";
import { formatEntryKey } from "./entry.ts";
import { shardCapacity, shardName } from "./shard.ts";
import { findOpenShard, type OpenShard, type ShardWrites } from "./shard-writes.ts";
import {
  buildChange,
  listPuts,
  listRemovals,
  withdrawal,
  type Decision,
  type Item,
  type PlannedWrite,
  type Task,
} from "./task.ts";
import type { WatchProgress } from "./watch-progress.ts";

export interface PoolWriterOptions {
  readonly pool: string;
  readonly context: PlanContext;
  readonly writes: ShardWrites;
  readonly watchProgress: WatchProgress;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Written {
  readonly shard: string;
  readonly version: bigint;
  readonly isNewShard: boolean;
}

const batchSize = 256;
/** How long a batch waits for more, when the last one was larger: those who were just answered come again. */
const lingerMs = 2;
const mostAttempts = 50;
const verifyTimeoutMs = 1_000;
const problemMs = 10_000;

export class PoolWriter {
  readonly #options: PoolWriterOptions;
  readonly #occupied = new Set<string>();
  #queue: Item[] = [];
  #running: Promise<void> | undefined;
  #failure: { readonly text: string; readonly atMs: number } | undefined;

  constructor(options: PoolWriterOptions) {
    this.#options = options;
  }

  submit<T>(task: Task<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const take = resolve as (value: unknown) => void;
      this.#queue.push({ task, resolve: take, reject, attempts: 0 });
      this.#running ??= this.#run();
    });
  }

  /**
   * Why the last write failed; undefined when it did not, or long ago: a replica that is not called because it is not
   * ready would otherwise never write again.
   */
  get problem(): string | undefined {
    const failure = this.#failure;
    return failure && performance.now() - failure.atMs < problemMs ? failure.text : undefined;
  }

  get isIdle(): boolean {
    return this.#running === undefined;
  }

  async #run(): Promise<void> {
    // One turn: what arrived together is decided together.
    await new Promise(setImmediate);
    let last = 0;
    while (this.#queue.length > 0) {
      if (this.#queue.length < last) await new Promise((resolve) => setTimeout(resolve, lingerMs));
      const batch = this.#queue.splice(0, batchSize);
      last = batch.length;
      try {
        await this.#commit(batch);
      } catch (error) {
        for (const item of batch) item.reject(error);
      }
    }
    this.#running = undefined;
  }

  async #commit(batch: readonly Item[]): Promise<void> {
    const groups = this.#decide(batch);
    const inPlace = [...groups].filter(([name]) => name !== "");
    const fresh = groups.get("") ?? [];
    await Promise.all([
      ...inPlace.map(([name, writes]) => this.#writeTo(name, writes)),
      ...(fresh.length > 0 ? [this.#writeNew(fresh)] : []),
    ]);
  }

  /** Planned writes by shard; under "" those that are new. */
  #decide(batch: readonly Item[]): Map<string, PlannedWrite[]> {
    const round = new ClaimRound(this.#options.context);
    const groups = new Map<string, PlannedWrite[]>();
    const touched = new Set<string>();
    for (const item of batch) {
      const decision = this.#settleOrPlan(item, round);
      if (!decision) continue;
      const { held, entry } = decision;
      const place = held ? `${held.shard} ${held.key}` : `new ${entry?.vmName ?? ""}`;
      if (touched.has(place)) {
        this.#queue.push(item); // decided again once the other change is in
        continue;
      }
      touched.add(place);
      if (entry) this.#options.context.reserved.begin(entry);
      const group = groups.get(held?.shard ?? "");
      if (group) group.push({ item, decision });
      else groups.set(held?.shard ?? "", [{ item, decision }]);
    }
    return groups;
  }

  /** The write that a task comes to; undefined when it was answered without one. */
  #settleOrPlan(item: Item, round: ClaimRound): PlannedWrite["decision"] | undefined {
    const { task, resolve, reject } = item;
    try {
      task.signal.throwIfAborted();
      const decision = task.decide(round);
      if (decision.kind === "write") return decision;
      if (decision.kind === "confirm") this.#confirm(item, decision);
      else resolve(decision.value);
    } catch (error) {
      reject(error);
    }
    return undefined;
  }

  async #writeNew(writes: readonly PlannedWrite[]): Promise<void> {
    const { pool, context } = this.#options;
    const open = findOpenShard(pool, context.reserved, (name) => this.#occupied.has(name));
    if (open.kind === "shard") return this.#writeTo(open.name, writes);
    const name = open.kind === "create" ? shardName(pool, open.index) : open.name;
    await this.#guarded({ name, writes }, () =>
      open.kind === "create" ? this.#create(open, writes) : this.#seal(open, writes),
    );
  }

  async #create(
    { index }: Extract<OpenShard, { kind: "create" }>,
    writes: readonly PlannedWrite[],
  ): Promise<void> {
    const { pool, context, writes: shards, signal } = this.#options;
    const change = buildChange(writes, writes.length >= shardCapacity);
    const made = await shards.create(pool, { index, change }, { signal });
    context.reserved.apply(made);
    const { name = "", resourceVersion = "0" } = made.metadata;
    this.#finish(writes, { shard: name, version: BigInt(resourceVersion), isNewShard: true });
  }

  async #seal(
    { name }: Extract<OpenShard, { kind: "seal" }>,
    writes: readonly PlannedWrite[],
  ): Promise<void> {
    const { context, writes: shards, signal } = this.#options;
    const version = context.reserved.shard(name)?.version ?? 0n;
    const sealed = await shards.patch(name, { version, change: { data: {}, seal: true } }, { signal });
    context.reserved.applyOwn(name, { version: sealed, sealed: true, put: [], removed: [] });
    this.#again(writes);
  }

  #writeTo(name: string, writes: readonly PlannedWrite[]): Promise<void> {
    const { context, writes: shards, signal } = this.#options;
    return this.#guarded({ name, writes }, async () => {
      const shard = context.reserved.shard(name);
      if (!shard) throw new Fault("conflict", `${name} is gone`);
      const { version } = shard;
      const added = writes.filter(({ decision }) => !decision.held).length;
      const change = buildChange(writes, added > 0 && shard.held.size + added >= shardCapacity);
      const written = await shards.patch(name, { version, change }, { signal });
      context.reserved.applyOwn(name, {
        version: written,
        sealed: change.seal,
        put: listPuts(writes),
        removed: listRemovals(writes),
      });
      this.#finish(writes, { shard: name, version: written, isNewShard: false });
    });
  }

  async #guarded(
    { name, writes }: { name: string; writes: readonly PlannedWrite[] },
    write: () => Promise<void>,
  ): Promise<void> {
    try {
      await write();
      this.#failure = undefined;
    } catch (error) {
      for (const { decision } of writes)
        if (decision.entry) this.#options.context.reserved.end(decision.entry, false);
      await this.#recover({ name, writes, fault: toFault(error) });
    }
  }

  async #recover({
    name,
    writes,
    fault,
  }: {
    name: string;
    writes: readonly PlannedWrite[];
    fault: Fault;
  }): Promise<void> {
    const { pool, context, writes: shards, log, signal } = this.#options;
    const { code } = fault;
    const raced = code === "conflict" || code === "alreadyExists" || code === "notFound";
    if (!raced) {
      this.#failure = { text: getErrorMessage(fault), atMs: performance.now() };
      log.warn({ pool, error: getErrorMessage(fault), code }, "reservations not written");
    }
    if (!raced && !fault.traits.retry) return this.#reject(writes, fault);
    try {
      if (code === "alreadyExists") await shards.refreshPool(pool, { signal });
      else await shards.refresh(name, { signal });
      if (code === "alreadyExists" && context.reserved.shard(name)?.pool !== pool) this.#occupied.add(name);
      this.#again(writes);
    } catch (error) {
      this.#failure = { text: getErrorMessage(error), atMs: performance.now() };
      this.#reject(writes, toFault(error));
    }
  }

  #reject(writes: readonly PlannedWrite[], fault: Fault): void {
    for (const { item } of writes) item.reject(fault);
  }

  /** Decided once more, before those that came later. */
  #again(writes: readonly PlannedWrite[]): void {
    const left: Item[] = [];
    for (const { item, decision } of writes) {
      if (decision.entry) this.#options.context.reserved.end(decision.entry, false);
      item.attempts += 1;
      if (item.attempts < mostAttempts) left.push(item);
      else item.reject(new Fault("unavailable", "too many concurrent reservation updates; retry"));
    }
    this.#queue = [...left, ...this.#queue];
  }

  #finish(writes: readonly PlannedWrite[], { shard, version, isNewShard }: Written): void {
    const { reserved } = this.#options.context;
    for (const write of writes) {
      const { item, decision } = write;
      if (decision.entry) reserved.end(decision.entry, true);
      if (decision.verify || (isNewShard && decision.entry)) this.#verify(write, { shard, version });
      else item.resolve(decision.value);
    }
  }

  #confirm(item: Item, { held, value }: Extract<Decision<unknown>, { kind: "confirm" }>): void {
    const { entry, shard } = held;
    const version = this.#options.context.reserved.shard(shard)?.version ?? 0n;
    const decision = { kind: "write", held: undefined, entry, value, verify: true } as const;
    this.#verify({ item, decision }, { shard, version });
  }

  /** Answers when no earlier claim of the same name can turn up any more. */
  #verify(
    write: PlannedWrite,
    { shard, version }: { readonly shard: string; readonly version: bigint },
  ): void {
    const { watchProgress, writes, log, pool } = this.#options;
    const check = () => {
      clearTimeout(timer);
      this.#conclude(write, shard);
    };
    let cancel: () => void = () => undefined;
    const timer = setTimeout(() => {
      cancel();
      log.debug({ pool }, "watch is behind, reading from the API server");
      writes.refreshEverything().then(check, write.item.reject);
    }, verifyTimeoutMs);
    cancel = watchProgress.when(version, check);
  }

  #conclude({ item, decision }: PlannedWrite, shard: string): void {
    const { reserved } = this.#options.context;
    const { entry } = decision;
    if (!entry) return item.resolve(decision.value);
    const held = reserved.shard(shard)?.held.get(formatEntryKey(entry));
    const mine = held !== undefined && held.entry.claim === entry.claim;
    const rival = mine ? findRival(held, { reserved }) : undefined;
    if (mine && !rival && !this.#isChainBroken(shard)) return item.resolve(decision.value);
    const withdraw: Task<void> = {
      signal: this.#options.signal,
      decide: () => withdrawal(reserved.heldBy(entry.claim), decision.held),
    };
    this.submit(withdraw).then(() => {
      item.attempts += 1;
      this.#queue.push(item);
      this.#running ??= this.#run();
    }, item.reject);
  }

  /** Two writers opened the next shard under different names: the later one takes its entries back. */
  #isChainBroken(name: string): boolean {
    const { reserved } = this.#options.context;
    const mine = reserved.shard(name);
    if (!mine) return true;
    return reserved
      .listShards(this.#options.pool)
      .some(({ index, sealed }) => (index < mine.index ? !sealed : index > mine.index && !mine.sealed));
  }
}
