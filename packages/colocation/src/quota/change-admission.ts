/**
 * Decides about changes of quotas in batches, so that what several replicas admit at once fits together. An admitted change is
 * recorded in a shared list until it is stored or its time is over.
 *
 *   read the list → list the quotas → decide the batch → write the list if its version is still the same
 *
 * The quotas are listed after the changes were read, so a change that is missing in one is in the other.
 */
import { isFault, type Abortable } from "@cocoon/core";
import type { Verdict } from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import { evaluateNow, type RulePolicy } from "../handlers.ts";
import type { ElasticQuota } from "../kinds.ts";
import { quotaKey, rootQuota } from "../keys.ts";
import { Batches } from "./batches.ts";
import { quotaChecks, type CheckParts, type QuotaRequest, selfRules } from "./check.ts";
import { listPossibleTrees, PendingTree, type PendingChange } from "./pending-tree.ts";
import { QuotaTree, tryReadQuota, type Quota } from "./quota-tree.ts";

/** A change that was admitted and is not known to be stored. */
export interface AdmittedChange {
  readonly id: string;
  readonly operation: QuotaRequest["operation"];
  readonly name: string;
  readonly uid: string;
  readonly beforeVersion: string;
  readonly after?: ElasticQuota;
  readonly untilMs: number;
}

export interface ChangeStore {
  readChanges(
    options: Abortable,
  ): Promise<{ readonly version: string | undefined; readonly entries: readonly AdmittedChange[] }>;
  /** A `conflict` or `alreadyExists` fault when another writer wrote since. */
  writeChanges(
    version: string | undefined,
    entries: readonly AdmittedChange[],
    options: Abortable,
  ): Promise<void>;
  listQuotas(options: Abortable): Promise<readonly ElasticQuota[]>;
  /** Whether an object with that uid was stored lately, even if it is gone by now. */
  wasStored(uid: string): boolean;
}

export interface Reviewed {
  readonly request: QuotaRequest;
  readonly object: ElasticQuota | undefined;
  readonly dryRun: boolean;
  readonly id: string;
  readonly signal: AbortSignal;
}

export interface ChangeAdmissionOptions extends CheckParts {
  readonly store: ChangeStore;
  readonly policy: RulePolicy;
  readonly gates: Gates;
  readonly nowMs?: () => number;
  /** How long after our answer an API server may still store the object. */
  readonly holdMs?: number;
}

type Broken = Parameters<RulePolicy["broken"]>;

/** The longest that other webhooks may take after us, and some. */
const defaultHoldMs = 40_000;
const callMs = 10_000;
const maxEntries = 500;

export class ChangeAdmission {
  readonly #options: ChangeAdmissionOptions;
  readonly #batches: Batches<Reviewed, Verdict>;
  readonly #broken = new WeakMap<Verdict, readonly Broken[]>();
  /** Admitted too late: the API server got a refusal in the meantime, so these are taken out again. */
  readonly #tooLate = new Set<string>();

  constructor(options: ChangeAdmissionOptions) {
    this.#options = options;
    this.#batches = new Batches((requests) => this.#decide(requests));
  }

  decide(reviewed: Reviewed): Promise<Verdict> {
    return this.#batches.ask(reviewed, reviewed.signal);
  }

  async #decide(requests: readonly Reviewed[]): Promise<(Verdict | undefined)[]> {
    for (;;) {
      const signal = AbortSignal.timeout(callMs);
      const answers = await this.#attempt(requests, { signal });
      if (answers) return answers;
    }
  }

  async #attempt(
    requests: readonly Reviewed[],
    options: Abortable,
  ): Promise<(Verdict | undefined)[] | undefined> {
    const { store, holdMs = defaultHoldMs, nowMs = Date.now } = this.#options;
    const recorded = await store.readChanges(options);
    // Read before the list: what was stored then and is not in the list is gone again.
    const done = new Set(recorded.entries.map(({ uid }) => uid).filter((uid) => store.wasStored(uid)));
    const stored = new QuotaTree((await store.listQuotas(options)).flatMap(tryReadQuota));
    const isOpen = (entry: AdmittedChange) =>
      !(entry.operation === "CREATE" && done.has(entry.uid)) && !isStored(entry, stored);
    const entries = recorded.entries.filter(
      (entry) => entry.untilMs > nowMs() && isOpen(entry) && !this.#tooLate.has(entry.id),
    );
    const before = entries.length;
    const answers = requests.map((reviewed) => {
      const verdict = this.#evaluate(reviewed, stored, entries);
      if (verdict?.kind === "allow" && !reviewed.dryRun)
        entries.push(createEntry(reviewed, nowMs() + holdMs));
      return verdict;
    });
    if (entries.length === before) return this.#counted(answers);
    try {
      await store.writeChanges(recorded.version, entries, options);
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "alreadyExists")) return undefined;
      throw error;
    }
    this.#tooLate.clear();
    for (const { id, signal } of requests) if (signal.aborted) this.#tooLate.add(id);
    return this.#counted(answers);
  }

  /** Undefined: it depends on changes whose end is not known yet. */
  #evaluate(reviewed: Reviewed, stored: QuotaTree, entries: readonly AdmittedChange[]): Verdict | undefined {
    const { request } = reviewed;
    const changes = excludeSameObject(reviewed, entries).map((entry) => buildChange(entry, stored));
    const tree = new PendingTree(stored, changes);
    if (entries.length >= maxEntries) return undefined;
    if (this.#mustWait(request, tree)) return this.#findCertainRefusal(request, stored, changes);
    const pending = this.#check(request, tree);
    if (pending.kind === "allow") return pending;
    const settled = this.#check(request, new PendingTree(stored));
    return settled.kind === "deny" ? settled : undefined;
  }

  /** The refusal of a request that is refused however the admitted changes end: waiting for them would be in vain. */
  #findCertainRefusal(
    request: QuotaRequest,
    stored: QuotaTree,
    changes: readonly PendingChange[],
  ): Verdict | undefined {
    const settled = this.#check(request, new PendingTree(stored));
    if (settled.kind !== "deny") return undefined;
    if (request.operation !== "DELETE" && breaksOwnRules(request.quota)) return settled;
    const possible = listPossibleTrees(stored, changes);
    const isCertain = possible?.every((tree) => this.#check(request, new PendingTree(tree)).kind === "deny");
    return isCertain ? settled : undefined;
  }

  #check(request: QuotaRequest, tree: PendingTree): Verdict {
    const broken: Broken[] = [];
    const verdict = evaluateNow(quotaChecks(request, tree, this.#options), {
      warns: (rule) => this.#options.policy.warns(rule),
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
      .some((name) => tree.getChanges(name).some((change) => isStructural(change, this.#options.gates)));
  }

  /** Rules are judged several times and counted once. */
  #counted(answers: (Verdict | undefined)[]): (Verdict | undefined)[] {
    for (const verdict of answers)
      for (const [rule, outcome] of (verdict && this.#broken.get(verdict)) ?? [])
        this.#options.policy.broken(rule, outcome);
    return answers;
  }
}

function breaksOwnRules(quota: Quota): boolean {
  for (const _refusal of selfRules(quota)) return true;
  return false;
}

/** A second review of the same object is not its own rival. */
function excludeSameObject(
  { request }: Reviewed,
  entries: readonly AdmittedChange[],
): readonly AdmittedChange[] {
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

function isStored({ operation, name, uid, beforeVersion }: AdmittedChange, stored: QuotaTree): boolean {
  const found = stored.named(name);
  if (operation === "CREATE") return uid === "" ? found.length > 0 : found.some((each) => each.uid === uid);
  return !found.some((each) => each.resourceVersion === beforeVersion);
}

function buildChange({ name, after }: AdmittedChange, stored: QuotaTree): PendingChange {
  return { name, before: stored.get(name), after: after && tryReadQuota(after)[0] };
}

function createEntry({ request, object, id }: Reviewed, untilMs: number): AdmittedChange {
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
