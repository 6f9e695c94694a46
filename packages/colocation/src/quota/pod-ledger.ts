/**
 * How much of a quota its pods ask for, as a number in the ElasticQuota itself (`child-request`) that is only ever
 * changed by compare-and-swap. An admitted pod is added at once and held by name of its uid until it is seen stored or
 * its time is over, so two replicas never give the same room away, and room that was not used comes back.
 *
 * Somebody else's number is taken as it is. Ours is counted again from the stored pods before anybody is refused by it
 * and from time to time. Counting goes: read the quota, then list its pods, then write if the quota is still the same;
 * a pod that was admitted before the read is in the list or among the holds.
 */
import { isFault, type Abortable } from "@cocoon/core";
import { compareQuantities, type Quantity } from "@cocoon/core/quantity";
import * as z from "zod";
import { sortedJson, tryParseJson } from "../json.ts";
import { gpu, ledgerAnnotation, quotaKey } from "../keys.ts";
import type { ElasticQuota } from "../kinds.ts";
import {
  amount,
  quantityText,
  readResources,
  resourcesText,
  sum,
  writeResources,
  type Resources,
} from "../resources.ts";
import { Batches } from "./batches.ts";
import { readResourcesText } from "./quota-tree.ts";

/** A stored pod that belongs to a quota. */
export interface StoredPod {
  readonly uid: string;
  readonly request: Resources;
}

export interface PodLedgerStore {
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

export interface PodAsking {
  readonly uid: string;
  readonly request: Resources;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** When waiting for others must end. */
  readonly patienceEndsMs: number;
}

export interface PodLedgerOptions {
  readonly store: PodLedgerStore;
  readonly key: QuotaKey;
  readonly nowMs?: () => number;
  readonly holdMs?: number;
  readonly recountMs?: number;
}

const ledgerSchema = z.object({
  /** What we last wrote as child-request: when it is something else now, it is somebody else's. */
  wrote: z.string(),
  countedMs: z.number(),
  holds: z.record(z.string(), z.object({ request: z.record(z.string(), z.string()), untilMs: z.number() })),
});

type Ledger = z.output<typeof ledgerSchema>;
type Hold = Ledger["holds"][string];

interface Answer {
  /** Undefined: admitted. */
  readonly refusal: string | undefined;
}

const callMs = 8_000;
/** An annotation has its limits; who comes when so many are under way waits a moment. */
const maxHolds = 1_000;

export class PodLedger {
  readonly #options: Required<PodLedgerOptions>;
  readonly #batches: Batches<PodAsking, Answer>;
  /** What our last write returned: the next batch may begin with it. */
  #last: ElasticQuota | undefined;
  /** Admitted too late: the API server was told no in the meantime, so these are given back. */
  readonly #tooLate = new Set<string>();

  constructor(options: PodLedgerOptions) {
    this.#options = { nowMs: Date.now, holdMs: 40_000, recountMs: 60_000, ...options };
    this.#batches = new Batches((questions) => this.#decide(questions));
  }

  /** Undefined when the pod may go ahead, else why not. */
  async admit(asking: PodAsking): Promise<string | undefined> {
    return (await this.#batches.ask(asking, asking.signal)).refusal;
  }

  async #decide(questions: readonly PodAsking[]): Promise<(Answer | undefined)[]> {
    const { store, key } = this.#options;
    for (;;) {
      const signal = AbortSignal.timeout(callMs);
      const quota = this.#last ?? (await store.read(key, { signal }));
      const answers = await this.#attempt(quota, questions, { signal });
      if (answers) return answers;
      this.#last = undefined;
    }
  }

  /** Undefined when the quota changed in between. */
  async #attempt(
    quota: ElasticQuota,
    questions: readonly PodAsking[],
    options: Abortable,
  ): Promise<(Answer | undefined)[] | undefined> {
    const account = this.#accountOf(quota);
    let balance = account.isOurs && account.isOld ? await this.#recount(quota, account, options) : account;
    let tally = takeTurns(quota, balance, questions);
    if (tally.refused.length > 0 && balance === account) {
      balance = await this.#recount(quota, account, options);
      tally = takeTurns(quota, balance, questions);
    }
    // A refusal from a remembered quota may be out of date: look once more.
    if (tally.refused.length > 0 && quota === this.#last) return undefined;
    const kept = questions.filter((each) => tally.admitted.has(each) && !each.dryRun);
    if (kept.length > 0 && !(await this.#write(quota, { balance, kept }, options))) return undefined;
    for (const { uid, signal } of kept) if (signal.aborted) this.#tooLate.add(uid);
    return questions.map((each) => this.#answer(each, { tally, balance, quota }));
  }

  #answer(
    asking: PodAsking,
    {
      tally,
      balance,
      quota,
    }: { readonly tally: Tally; readonly balance: Account; readonly quota: ElasticQuota },
  ): Answer | undefined {
    if (tally.admitted.has(asking)) return { refusal: undefined };
    if (!tally.refused.includes(asking)) return undefined;
    // Room that is only held may come back: wait for it as long as there is time.
    const freed = fits(quota, withoutHolds(balance), asking.request);
    if (freed && this.#options.nowMs() < asking.patienceEndsMs) return undefined;
    return { refusal: refusalText(quota, balance.used, asking.request) };
  }

  #accountOf(quota: ElasticQuota): Account {
    const { nowMs, recountMs } = this.#options;
    const annotations = quota.metadata.annotations ?? {};
    const text = annotations[quotaKey.childRequest];
    const { wrote, countedMs, holds: held } = readLedger(annotations[ledgerAnnotation]);
    const isAlive = ([uid, hold]: readonly [string, Hold]) =>
      hold.untilMs > nowMs() && !this.#tooLate.has(uid);
    const holds = new Map(Object.entries(held).filter(isAlive));
    const isOurs = text === undefined || wrote === text;
    const given = readResourcesText(text)?.value ?? new Map<string, Quantity>();
    const isWhole = holds.size === Object.keys(held).length && holds.size < maxHolds / 2;
    const isOld = text === undefined || nowMs() - countedMs > recountMs || !isWhole;
    // Ours includes what is held; somebody else's may not.
    const used = isOurs ? given : sum([given, ...[...holds.values()].map(requestOf)]);
    return { isOurs, isOld, given, used, holds, countedMs };
  }

  async #recount(quota: ElasticQuota, account: Account, options: Abortable): Promise<Account> {
    const { store } = this.#options;
    // Asked before the list: what was stored then and is not in the list is gone again.
    const done = [...account.holds.keys()].filter((uid) => store.wasStored(uid));
    const pods = await store.listPods(quota, options);
    const stored = new Set([...done, ...pods.map(({ uid }) => uid)]);
    const holds = new Map([...account.holds].filter(([uid]) => !stored.has(uid)));
    const counted = pods.map(({ request }) => considered(quota, request));
    const settled = account.isOurs ? counted : [account.given];
    const used = sum([...settled, ...[...holds.values()].map(requestOf)]);
    return { ...account, used, holds, countedMs: this.#options.nowMs(), isOld: false };
  }

  async #write(
    quota: ElasticQuota,
    { balance, kept }: { readonly balance: Account; readonly kept: readonly PodAsking[] },
    options: Abortable,
  ): Promise<boolean> {
    const { nowMs, holdMs, store } = this.#options;
    const holds: Record<string, Hold> = Object.fromEntries(balance.holds);
    for (const { uid, request } of kept)
      holds[uid] = { request: writeResources(considered(quota, request)), untilMs: nowMs() + holdMs };
    const added = kept
      .filter(({ uid }) => !balance.holds.has(uid))
      .map(({ request }) => considered(quota, request));
    const wrote = resourcesText(sum([balance.used, ...added]));
    const ledger: Ledger = { wrote, countedMs: balance.countedMs, holds };
    try {
      const annotations = { [quotaKey.childRequest]: wrote, [ledgerAnnotation]: sortedJson(ledger) };
      this.#last = await store.write(quota, annotations, options);
      this.#tooLate.clear();
      return true;
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "invalid")) return false;
      throw error;
    }
  }
}

interface Account {
  /** The number is ours to count again. */
  readonly isOurs: boolean;
  readonly isOld: boolean;
  /** As it stands in the quota. */
  readonly given: Resources;
  readonly used: Resources;
  readonly holds: ReadonlyMap<string, Hold>;
  readonly countedMs: number;
}

interface Tally {
  readonly admitted: ReadonlySet<PodAsking>;
  readonly refused: readonly PodAsking[];
}

/** In the order of asking; who does not fit does not keep the next from fitting. */
function takeTurns(quota: ElasticQuota, account: Account, questions: readonly PodAsking[]): Tally {
  const admitted = new Set<PodAsking>();
  const refused: PodAsking[] = [];
  let { used } = account;
  for (const asking of questions) {
    if (account.holds.has(asking.uid)) admitted.add(asking);
    else if (account.holds.size + admitted.size >= maxHolds) break;
    else if (fits(quota, used, asking.request)) {
      admitted.add(asking);
      if (!asking.dryRun) used = sum([used, considered(quota, asking.request)]);
    } else refused.push(asking);
  }
  return { admitted, refused };
}

function withoutHolds({ used, holds }: Account): Resources {
  const held = sum([...holds.values()].map(requestOf));
  return new Map(
    [...used].map(([name, quantity]) => [
      name,
      { nanos: quantity.nanos - amount(held, name).nanos, format: quantity.format },
    ]),
  );
}

function requestOf({ request }: Hold): Resources {
  return readResources({ request }, "request", "request");
}

const noLedger: Ledger = { wrote: "", countedMs: 0, holds: {} };

function readLedger(text: string | undefined): Ledger {
  const parsed = ledgerSchema.safeParse(text === undefined ? undefined : tryParseJson(text)?.value);
  return parsed.success ? parsed.data : noLedger;
}

function fits(quota: ElasticQuota, used: Resources, request: Resources): boolean {
  return exceededKeys(quota, used, request).length === 0;
}

/** Resources that would be over their limit, and that this pod asks for. */
function exceededKeys(quota: ElasticQuota, used: Resources, request: Resources): string[] {
  const limits = limitsOf(quota);
  return [...considered(quota, request)]
    .filter(([name, wanted]) => {
      const limit = limits.get(name);
      if (!limit || wanted.nanos === 0n) return false;
      return (
        compareQuantities({ nanos: amount(used, name).nanos + wanted.nanos, format: wanted.format }, limit) >
        0
      );
    })
    .map(([name]) => name);
}

function limitsOf(quota: ElasticQuota): Resources {
  const admission = readResourcesText(quota.metadata.annotations?.[quotaKey.admission])?.value;
  return admission && admission.size > 0 ? admission : maxOf(quota);
}

function maxOf({ spec }: ElasticQuota): Resources {
  return readResources(spec, "max", "spec.max");
}

const requestsPrefix = "requests.";

/** The part of a request that the quota speaks of, under the quota's names. */
function considered(quota: ElasticQuota, request: Resources): Resources {
  const found = new Map<string, Quantity>();
  for (const key of maxOf(quota).keys()) {
    const plain = key.startsWith(requestsPrefix) ? key.slice(requestsPrefix.length) : key;
    const quantity = request.get(key) ?? request.get(plain);
    if (quantity) found.set(key, quantity);
  }
  return found;
}

const judged: ReadonlySet<string> = new Set([
  ...["cpu", "memory", "ephemeral-storage"].flatMap((name) => [name, `${requestsPrefix}${name}`]),
  ...["batch-cpu", "batch-memory", "mid-cpu", "mid-memory"].map((name) => `kubernetes.io/${name}`),
  gpu.whole,
  gpu.shared,
  gpu.memoryRatio,
  gpu.nvidia,
]);

/** A quota that limits none of these is not looked at. */
export function isJudged(max: Resources): boolean {
  return [...max.keys()].some((key) => judged.has(key));
}

function refusalText(quota: ElasticQuota, used: Resources, request: Resources): string {
  const { namespace = "", name = "" } = quota.metadata;
  const keys = exceededKeys(quota, used, request).toSorted();
  const wanted = considered(quota, request);
  const limits = limitsOf(quota);
  const list = (amounts: Resources) =>
    keys.map((key) => `${key}=${quantityText(amount(amounts, key))}`).join(",");
  return `exceeded quota: ${namespace}/${name}, requested: ${list(wanted)}, used: ${list(used)}, limited: ${list(limits)}`;
}
