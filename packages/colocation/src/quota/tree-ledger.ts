/**
 * Decides about changes of quotas, one batch after the other, so that what several replicas admit at the same time
 * still fits together. A change that was admitted is written down in a shared ledger until it shows up in the API
 * server or its time is over: nothing counts as done before it is stored, and nothing is forgotten that may be.
 *
 *   read the ledger → list the quotas → decide the batch → write the ledger if its version is still the same
 *
 * The list is taken after the ledger was read, so a change that is missing in one is in the other.
 */
import { isFault, type Abortable } from "@cocoon/core";
import type { Verdict } from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import { judgeNow, type RuleBook } from "../handlers.ts";
import type { ElasticQuota } from "../kinds.ts";
import { quotaKey, rootQuota } from "../keys.ts";
import { Batches } from "./batches.ts";
import { quotaChecks, type CheckParts, type QuotaRequest } from "./check.ts";
import { PendingTree, type PendingChange } from "./pending-tree.ts";
import { QuotaTree, readQuota, type Quota } from "./quota-tree.ts";

/** A change that was admitted and is not known to be stored. */
export interface LedgerEntry {
  /** Of the request. */
  readonly id: string;
  readonly operation: QuotaRequest["operation"];
  readonly name: string;
  /** Of the object, where the API server has given it one. */
  readonly uid: string;
  /** Version of the object that the change starts from. */
  readonly beforeVersion: string;
  readonly after?: ElasticQuota;
  readonly untilMs: number;
}

export interface TreeStore {
  readLedger(
    options: Abortable,
  ): Promise<{ readonly version: string | undefined; readonly entries: readonly LedgerEntry[] }>;
  /** A `conflict` or `alreadyExists` fault when somebody else wrote since. */
  writeLedger(
    version: string | undefined,
    entries: readonly LedgerEntry[],
    options: Abortable,
  ): Promise<void>;
  listQuotas(options: Abortable): Promise<readonly ElasticQuota[]>;
  /** Whether an object with that uid was stored lately, even if it is gone by now. */
  wasStored(uid: string): boolean;
}

export interface Asked {
  readonly request: QuotaRequest;
  readonly object: ElasticQuota | undefined;
  readonly dryRun: boolean;
  /** Of the request. */
  readonly id: string;
  readonly signal: AbortSignal;
}

export interface TreeLedgerOptions extends CheckParts {
  readonly store: TreeStore;
  readonly book: RuleBook;
  readonly gates: Gates;
  readonly nowMs?: () => number;
  /** How long after our answer an API server may still store the object. */
  readonly holdMs?: number;
}

type Broken = Parameters<RuleBook["broken"]>;

/** The longest that other webhooks may take after us, and some. */
const defaultHoldMs = 40_000;
const callMs = 10_000;
const maxEntries = 500;

export class TreeLedger {
  readonly #options: TreeLedgerOptions;
  readonly #batches: Batches<Asked, Verdict>;
  readonly #broken = new WeakMap<Verdict, readonly Broken[]>();
  /** Admitted too late: the API server was told no in the meantime, so these are taken out again. */
  readonly #tooLate = new Set<string>();

  constructor(options: TreeLedgerOptions) {
    this.#options = options;
    this.#batches = new Batches((questions) => this.#decide(questions));
  }

  decide(asked: Asked): Promise<Verdict> {
    return this.#batches.ask(asked, asked.signal);
  }

  async #decide(questions: readonly Asked[]): Promise<(Verdict | undefined)[]> {
    for (;;) {
      const signal = AbortSignal.timeout(callMs);
      const answers = await this.#attempt(questions, { signal });
      if (answers) return answers;
    }
  }

  /** Undefined when another replica wrote in between. */
  async #attempt(
    questions: readonly Asked[],
    options: Abortable,
  ): Promise<(Verdict | undefined)[] | undefined> {
    const { store, holdMs = defaultHoldMs, nowMs = Date.now } = this.#options;
    const ledger = await store.readLedger(options);
    // Asked before the list: what was stored then and is not in the list is gone again.
    const done = new Set(ledger.entries.map(({ uid }) => uid).filter((uid) => store.wasStored(uid)));
    const stored = new QuotaTree((await store.listQuotas(options)).flatMap(tryRead));
    const isOpen = (entry: LedgerEntry) =>
      !(entry.operation === "CREATE" && done.has(entry.uid)) && !isStored(entry, stored);
    const entries = ledger.entries.filter(
      (entry) => entry.untilMs > nowMs() && isOpen(entry) && !this.#tooLate.has(entry.id),
    );
    const before = entries.length;
    const answers = questions.map((asked) => {
      const verdict = this.#judge(asked, stored, entries);
      if (verdict?.kind === "allow" && !asked.dryRun) entries.push(entryOf(asked, nowMs() + holdMs));
      return verdict;
    });
    if (entries.length === before) return this.#counted(answers);
    try {
      await store.writeLedger(ledger.version, entries, options);
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "alreadyExists")) return undefined;
      throw error;
    }
    this.#tooLate.clear();
    for (const { id, signal } of questions) if (signal.aborted) this.#tooLate.add(id);
    return this.#counted(answers);
  }

  /** Undefined: it depends on changes whose end is not known yet. */
  #judge(asked: Asked, stored: QuotaTree, entries: readonly LedgerEntry[]): Verdict | undefined {
    const { request } = asked;
    const tree = new PendingTree(
      stored,
      othersThan(asked, entries).map((entry) => changeOf(entry, stored)),
    );
    if (entries.length >= maxEntries || this.#mustWait(request, tree)) return undefined;
    const pending = this.#check(request, tree);
    if (pending.kind === "allow") return pending;
    const settled = this.#check(request, new PendingTree(stored));
    return settled.kind === "deny" ? settled : undefined;
  }

  #check(request: QuotaRequest, tree: PendingTree): Verdict {
    const broken: Broken[] = [];
    const verdict = judgeNow(quotaChecks(request, tree, this.#options), {
      warns: (rule) => this.#options.book.warns(rule),
      broken: (...each) => void broken.push(each),
    });
    if (broken.length > 0) this.#broken.set(verdict, broken);
    return verdict;
  }

  /** A parent or child that is being made, removed or rebuilt: its fate decides. Changed amounts need no waiting. */
  #mustWait(request: QuotaRequest, tree: PendingTree): boolean {
    if (request.operation === "DELETE") return false;
    const { quota } = request;
    const children = tree.children(quota.name).map(({ name }) => name);
    return [quota.parent, ...children]
      .filter((name) => name !== rootQuota && name !== quota.name)
      .some((name) => tree.changesOf(name).some((change) => isStructural(change, this.#options.gates)));
  }

  /** Rules are judged several times and counted once. */
  #counted(answers: (Verdict | undefined)[]): (Verdict | undefined)[] {
    for (const verdict of answers)
      for (const [rule, outcome] of (verdict && this.#broken.get(verdict)) ?? [])
        this.#options.book.broken(rule, outcome);
    return answers;
  }
}

/** The same object asked about again is not its own rival. */
function othersThan({ request }: Asked, entries: readonly LedgerEntry[]): readonly LedgerEntry[] {
  if (request.operation !== "CREATE" || request.quota.uid === "") return entries;
  return entries.filter(({ uid }) => uid !== request.quota.uid);
}

function isStructural({ before, after }: PendingChange, gates: Gates): boolean {
  if (!before || !after) return true;
  const keys = (list: Quota["min"]) => [...list.keys()].toSorted().join();
  const shape = (quota: Quota) =>
    [quota.parent, quota.treeId, quota.isParent, keys(quota.min), keys(quota.max)].join("\n");
  const maxMatters = gates.ElasticQuotaChildMaxWithinParent && before.max !== after.max;
  return shape(before) !== shape(after) || maxMatters || gates.ElasticQuotaGuaranteeUsage;
}

function isStored({ operation, name, uid, beforeVersion }: LedgerEntry, stored: QuotaTree): boolean {
  const found = stored.named(name);
  if (operation === "CREATE") return uid === "" ? found.length > 0 : found.some((each) => each.uid === uid);
  return !found.some((each) => each.resourceVersion === beforeVersion);
}

function changeOf({ name, after }: LedgerEntry, stored: QuotaTree): PendingChange {
  return { name, before: stored.get(name), after: after && tryRead(after)[0] };
}

function tryRead(object: ElasticQuota): Quota[] {
  try {
    return [readQuota(object)];
  } catch {
    return [];
  }
}

function entryOf({ request, object, id }: Asked, untilMs: number): LedgerEntry {
  const subject = request.operation === "DELETE" ? request.old : request.quota;
  return {
    id,
    operation: request.operation,
    name: subject.name,
    uid: subject.uid,
    beforeVersion: request.operation === "CREATE" ? "" : request.old.resourceVersion,
    ...(object && request.operation !== "DELETE" ? { after: slim(object) } : {}),
    untilMs,
  };
}

const keptAnnotations: ReadonlySet<string> = new Set([quotaKey.namespaces, quotaKey.guaranteed]);

/** What the rules read of it. */
function slim({ metadata, spec }: ElasticQuota): ElasticQuota {
  const { name = "", namespace = "", uid = "", labels = {}, annotations = {} } = metadata;
  const pick = (texts: Readonly<Record<string, string>>, keep: (key: string) => boolean) =>
    Object.fromEntries(Object.entries(texts).filter(([key]) => keep(key)));
  const ours: ReadonlySet<string> = new Set(Object.values(quotaKey));
  return {
    metadata: {
      name,
      namespace,
      uid,
      labels: pick(labels, (key) => ours.has(key)),
      annotations: pick(annotations, (key) => keptAnnotations.has(key)),
    },
    ...(spec ? { spec } : {}),
  };
}
