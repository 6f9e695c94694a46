/**
 * How much of a quota its pods request: a number in the ElasticQuota (`child-request`), changed by compare-and-swap only. An
 * admitted pod is added at once and held by its uid until it is stored or its time is over, so two replicas never give the same
 * room away. Our own number is counted again before a refusal: read the quota, list its pods, write if the quota is the same.
 */
import { tryParseJson, isFault, type Abortable } from "@cocoon/core";
import { type Quantity } from "@cocoon/core/quantity";
import * as z from "zod";
import { sortedJson } from "../json.ts";
import { usageAnnotation, quotaKey } from "../keys.ts";
import type { ElasticQuota } from "../kinds.ts";
import { amount, readResources, resourcesText, sum, writeResources, type Resources } from "../resources.ts";
import { Batches } from "./batches.ts";
import { readResourcesText } from "./quota-tree.ts";
import { considered, fits, refusalText } from "./quota-limits.ts";

export interface StoredPod {
  readonly uid: string;
  readonly request: Resources;
}

export interface UsageStore {
  read(key: QuotaKey, options: Abortable): Promise<ElasticQuota>;
  /** A `conflict` fault when the quota changed since; the quota as written otherwise. */
  write(
    quota: ElasticQuota,
    annotations: Readonly<Record<string, string>>,
    options: Abortable,
  ): Promise<ElasticQuota>;
  /** The pods of the quota that run or will run, as they are stored now. */
  listPods(quota: ElasticQuota, options: Abortable): Promise<readonly StoredPod[]>;
  /** Whether a pod with that uid was stored lately, even if it is gone by now. */
  wasStored(uid: string): boolean;
}

export interface QuotaKey {
  readonly namespace: string;
  readonly name: string;
}

export interface UsageRequest {
  readonly uid: string;
  readonly request: Resources;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  readonly waitUntilMs: number;
}

export interface QuotaUsageOptions {
  readonly store: UsageStore;
  readonly key: QuotaKey;
  readonly nowMs?: () => number;
  readonly holdMs?: number;
}

const recordSchema = z.object({
  /** What we last wrote as child-request: when it is something else now, it is another writer's. */
  wrote: z.string(),
  countedMs: z.number(),
  holds: z.record(z.string(), z.object({ request: z.record(z.string(), z.string()), untilMs: z.number() })),
});

type UsageRecord = z.output<typeof recordSchema>;
type Hold = UsageRecord["holds"][string];

interface Answer {
  readonly refusal: string | undefined;
}

const callMs = 8_000;
const recountMs = 60_000;
/** An annotation has its limits: with so many holds a pod waits a moment. */
const maxHolds = 1_000;

export class QuotaUsage {
  readonly #options: Required<QuotaUsageOptions>;
  readonly #batches: Batches<UsageRequest, Answer>;
  /** What our last write returned: the next batch may begin with it. */
  #last: ElasticQuota | undefined;
  /** Admitted too late: the API server got a refusal in the meantime, so these are given back. */
  readonly #tooLate = new Set<string>();

  constructor(options: QuotaUsageOptions) {
    this.#options = { nowMs: Date.now, holdMs: 40_000, ...options };
    this.#batches = new Batches((requests) => this.#decide(requests));
  }

  async admit(candidate: UsageRequest): Promise<string | undefined> {
    return (await this.#batches.ask(candidate, candidate.signal)).refusal;
  }

  async #decide(requests: readonly UsageRequest[]): Promise<(Answer | undefined)[]> {
    const { store, key } = this.#options;
    for (;;) {
      const signal = AbortSignal.timeout(callMs);
      const quota = this.#last ?? (await store.read(key, { signal }));
      const answers = await this.#attempt(quota, requests, { signal });
      if (answers) return answers;
      this.#last = undefined;
    }
  }

  async #attempt(
    quota: ElasticQuota,
    requests: readonly UsageRequest[],
    options: Abortable,
  ): Promise<(Answer | undefined)[] | undefined> {
    const usage = this.#readUsage(quota);
    let current = usage.isOurs && usage.isOld ? await this.#recount(quota, usage, options) : usage;
    let turn = decideInOrder(quota, current, requests);
    if (turn.refused.length > 0 && current === usage) {
      current = await this.#recount(quota, usage, options);
      turn = decideInOrder(quota, current, requests);
    }
    // A refusal from a remembered quota may be out of date: look once more.
    if (turn.refused.length > 0 && quota === this.#last) return undefined;
    const kept = requests.filter((each) => turn.admitted.has(each) && !each.dryRun);
    if (kept.length > 0 && !(await this.#write(quota, { current, kept }, options))) return undefined;
    for (const { uid, signal } of kept) if (signal.aborted) this.#tooLate.add(uid);
    return requests.map((each) => this.#answer(each, { turn, current, quota }));
  }

  #answer(
    candidate: UsageRequest,
    { turn, current, quota }: { readonly turn: Turn; readonly current: Usage; readonly quota: ElasticQuota },
  ): Answer | undefined {
    if (turn.admitted.has(candidate)) return { refusal: undefined };
    if (!turn.refused.includes(candidate)) return undefined;
    // Room that is only held may come back: wait for it as long as there is time.
    const freed = fits(quota, withoutHolds(current), candidate.request);
    if (freed && this.#options.nowMs() < candidate.waitUntilMs) return undefined;
    return { refusal: refusalText(quota, current.used, candidate.request) };
  }

  #readUsage(quota: ElasticQuota): Usage {
    const { nowMs } = this.#options;
    const annotations = quota.metadata.annotations ?? {};
    const text = annotations[quotaKey.childRequest];
    const { wrote, countedMs, holds: held } = readRecord(annotations[usageAnnotation]);
    const isAlive = ([uid, hold]: readonly [string, Hold]) =>
      hold.untilMs > nowMs() && !this.#tooLate.has(uid);
    const holds = new Map(Object.entries(held).filter(isAlive));
    const isOurs = text === undefined || wrote === text;
    const given = readResourcesText(text)?.value ?? new Map<string, Quantity>();
    const isWhole = holds.size === Object.keys(held).length && holds.size < maxHolds / 2;
    const isOld = text === undefined || nowMs() - countedMs > recountMs || !isWhole;
    // Ours includes what is held; another writer's may not.
    const used = isOurs ? given : sum([given, ...[...holds.values()].map(getRequest)]);
    return { isOurs, isOld, given, used, holds, countedMs };
  }

  async #recount(quota: ElasticQuota, usage: Usage, options: Abortable): Promise<Usage> {
    const { store } = this.#options;
    // Read before the list: what was stored then and is not in the list is gone again.
    const done = [...usage.holds.keys()].filter((uid) => store.wasStored(uid));
    const pods = await store.listPods(quota, options);
    const stored = new Set([...done, ...pods.map(({ uid }) => uid)]);
    const holds = new Map([...usage.holds].filter(([uid]) => !stored.has(uid)));
    const counted = pods.map(({ request }) => considered(quota, request));
    const settled = usage.isOurs ? counted : [usage.given];
    const used = sum([...settled, ...[...holds.values()].map(getRequest)]);
    return { ...usage, used, holds, countedMs: this.#options.nowMs(), isOld: false };
  }

  async #write(
    quota: ElasticQuota,
    { current, kept }: { readonly current: Usage; readonly kept: readonly UsageRequest[] },
    options: Abortable,
  ): Promise<boolean> {
    const { nowMs, holdMs, store } = this.#options;
    const holds: Record<string, Hold> = Object.fromEntries(current.holds);
    for (const { uid, request } of kept)
      holds[uid] = { request: writeResources(considered(quota, request)), untilMs: nowMs() + holdMs };
    const added = kept
      .filter(({ uid }) => !current.holds.has(uid))
      .map(({ request }) => considered(quota, request));
    const wrote = resourcesText(sum([current.used, ...added]));
    const record: UsageRecord = { wrote, countedMs: current.countedMs, holds };
    try {
      const annotations = { [quotaKey.childRequest]: wrote, [usageAnnotation]: sortedJson(record) };
      this.#last = await store.write(quota, annotations, options);
      this.#tooLate.clear();
      return true;
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "invalid")) return false;
      throw error;
    }
  }
}

interface Usage {
  /** The number is ours to count again. */
  readonly isOurs: boolean;
  readonly isOld: boolean;
  readonly given: Resources;
  readonly used: Resources;
  readonly holds: ReadonlyMap<string, Hold>;
  readonly countedMs: number;
}

interface Turn {
  readonly admitted: ReadonlySet<UsageRequest>;
  readonly refused: readonly UsageRequest[];
}

/** In order; one that does not fit does not keep the next from fitting. */
function decideInOrder(quota: ElasticQuota, usage: Usage, requests: readonly UsageRequest[]): Turn {
  const admitted = new Set<UsageRequest>();
  const refused: UsageRequest[] = [];
  let { used } = usage;
  for (const candidate of requests) {
    if (usage.holds.has(candidate.uid)) admitted.add(candidate);
    else if (usage.holds.size + admitted.size >= maxHolds) break;
    else if (fits(quota, used, candidate.request)) {
      admitted.add(candidate);
      if (!candidate.dryRun) used = sum([used, considered(quota, candidate.request)]);
    } else refused.push(candidate);
  }
  return { admitted, refused };
}

function withoutHolds({ used, holds }: Usage): Resources {
  const held = sum([...holds.values()].map(getRequest));
  return new Map(
    [...used].map(([name, quantity]) => [
      name,
      { nanos: quantity.nanos - amount(held, name).nanos, format: quantity.format },
    ]),
  );
}

function getRequest({ request }: Hold): Resources {
  return readResources({ request }, "request", "request");
}

const noRecord: UsageRecord = { wrote: "", countedMs: 0, holds: {} };

function readRecord(text: string | undefined): UsageRecord {
  const parsed = recordSchema.safeParse(text === undefined ? undefined : tryParseJson(text));
  return parsed.success ? parsed.data : noRecord;
}
