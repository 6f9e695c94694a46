/** One set: look, plan, do, look again until nothing is left to do; then say how it stands. */
import {
  finalizer,
  readCocoonSet,
  readDeletionPolicy,
  withConditions,
  type CocoonSet,
  type CocoonSetStatus,
} from "@cocoon/contract";
import {
  Backoff,
  isFault,
  getErrorMessage,
  toFault,
  type Abortable,
  type Fault,
  type FaultCode,
} from "@cocoon/core";
import { getKey, type ObjectKey } from "@cocoon/kube";
import { hasFinalizer, requeue, settled, type Outcome, type ReconcileContext } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import { applyActions } from "./apply.ts";
import { TagLookups } from "./tag-lookups.ts";
import type { SetPlan } from "./draft.ts";
import { observeSet } from "./observe.ts";
import type { SetParts } from "./parts.ts";
import { planSet } from "./plan.ts";
import { computeStatus } from "./status.ts";
import type { TagAnswer, ObservedSet } from "./observed-set.ts";
import { StatusWriter } from "./write-status.ts";

/** More rounds than any way through the plan has. */
const maxRounds = 20;
const refusalBackoff = { baseMs: 1_000, maxMs: 60_000, jitter: 0.1 };

export class SetReconciler {
  readonly #parts: SetParts;
  readonly #statuses: StatusWriter;
  /** Back-off of sets whose last write was refused, by uid. */
  readonly #refusals = new Map<string, Backoff>();

  constructor(parts: SetParts) {
    this.#parts = parts;
    this.#statuses = new StatusWriter(parts);
    parts.deletions.isBusy = () => this.#statuses.holdsAny;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.sets.get(key);
    if (!object) return settled;
    try {
      const outcome = await this.#settle(key, context);
      this.#refusals.delete(object.metadata.uid ?? "");
      return outcome;
    } catch (error) {
      await this.#reportFailure(key, error, context);
      if (!isFault(error, "forbidden")) throw error;
      return this.#retryRefused(object.metadata.uid ?? "", error, context);
    }
  }

  /** Quota, a service account that is not there yet, an owner that admission does not know yet: most refusals pass. */
  #retryRefused(uid: string, error: Fault, { log }: ReconcileContext): Outcome {
    const backoff = this.#refusals.get(uid) ?? new Backoff(refusalBackoff);
    this.#refusals.set(uid, backoff);
    const afterMs = backoff.nextMs();
    log.warn({ error: getErrorMessage(error), retryInMs: Math.round(afterMs) }, "request was refused");
    return requeue(afterMs, "a refusal may have passed");
  }

  async #settle(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    const lookups = new TagLookups();
    for (let round = 0; round < maxRounds; round += 1) {
      const object = this.#parts.sets.get(key);
      if (!object || isFinished(object)) {
        this.#forget(object?.metadata.uid ?? "");
        return settled;
      }
      const observed = observeSet(this.#parts, readSet(object), lookups);
      const plan = planSet(observed);
      if (plan.lookups.length > 0) {
        await this.#lookUp(plan.lookups, { lookups, machines: observed.machines }, context);
        continue;
      }
      if (isTerminating(object)) return this.#startDeletion(observed, plan, context);
      if (!(await this.#apply(observed, plan, context))) return this.#conclude(observed, plan, context);
      if (plan.actions.some(({ kind }) => kind === "dropSnapshot" || kind === "releaseSnapshot"))
        lookups.clear();
    }
    return requeue(0, `not at rest after ${maxRounds} rounds`);
  }

  #forget(uid: string): void {
    this.#statuses.forget(uid);
    this.#parts.deletions.forget(uid);
    this.#refusals.delete(uid);
  }

  async #lookUp(
    vmNames: readonly string[],
    { lookups, machines }: { readonly lookups: TagLookups; readonly machines: ObservedSet["machines"] },
    { signal }: Abortable,
  ): Promise<void> {
    const note = (vmName: string, answer: TagAnswer) => lookups.note(vmName, machines, answer);
    await Promise.all(
      vmNames.map(async (vmName) => {
        try {
          const digest = await this.#parts.snapshots.findHibernatedDigest(vmName, { signal });
          note(vmName, digest === undefined ? { kind: "absent" } : { kind: "there", digest });
        } catch (error) {
          if (signal.aborted) throw error;
          note(vmName, { kind: "unknown", message: getErrorMessage(error) });
        }
      }),
    );
  }

  #apply(observed: ObservedSet, plan: SetPlan, { signal, log }: ReconcileContext): Promise<boolean> {
    const { set } = observed;
    let written: Promise<void> | undefined;
    const persistStatus = () =>
      (written ??= this.#statuses.write(set, computeStatus(observed, plan), { signal }));
    return applyActions({ parts: this.#parts, set, signal, log, persistStatus }, plan.actions);
  }

  /** The set is reconciled again when the job has ended, which is after this reconcile. */
  #startDeletion(observed: ObservedSet, plan: SetPlan, context: ReconcileContext): Outcome {
    const { metadata } = observed.set;
    this.#statuses.forget(metadata.uid ?? "");
    const lasting = { ...context, signal: this.#parts.signal };
    if (plan.actions.length > 0)
      this.#parts.deletions.start({
        uid: metadata.uid ?? "",
        key: getKey(observed.set),
        run: () => this.#apply(observed, plan, lasting),
      });
    return settled;
  }

  async #conclude(observed: ObservedSet, plan: SetPlan, { signal }: ReconcileContext): Promise<Outcome> {
    const heldMs = await this.#statuses.writeSoon(observed.set, computeStatus(observed, plan), { signal });
    if (plan.retry) return requeue(0, "the registry could not be asked");
    const waits = [heldMs, plan.requeueAfterMs ?? 0].filter((ms) => ms > 0);
    // A time that has come already is looked at again in a moment: clocks are not that exact.
    if (plan.requeueAfterMs === 0) waits.push(100);
    return waits.length === 0 ? settled : requeue(Math.min(...waits), "something is due then");
  }

  /** Failures reach the status; a failure to say so is not worth another. */
  async #reportFailure(key: ObjectKey, error: unknown, { signal, log }: ReconcileContext): Promise<void> {
    const object = this.#parts.sets.get(key);
    const fault = toFault(error);
    if (!object || signal.aborted || fault.code === "conflict") return;
    this.#statuses.forget(object.metadata.uid ?? "");
    try {
      const set = readLoosely(object);
      await this.#statuses.write(set, degraded(set, fault, this.#parts.now()), { signal });
    } catch (writeError) {
      log.warn({ error: getErrorMessage(writeError) }, "failure could not be written to the status");
    }
  }
}

function isTerminating({ metadata }: CustomObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}

/** Terminating, and not held by our finalizer any more. */
function isFinished(object: CustomObject): boolean {
  return isTerminating(object) && !hasFinalizer(object, finalizer.cocoonSet);
}

const degradedReasons: Partial<Record<FaultCode, string>> = {
  invalid: "Invalid",
  forbidden: "Forbidden",
  unavailable: "Unavailable",
  timeout: "Timeout",
  notSupported: "NotSupported",
};

function degraded(set: CocoonSet, fault: Fault, now: Date): CocoonSetStatus {
  const report = {
    type: "Degraded",
    status: "True" as const,
    reason: degradedReasons[fault.code] ?? "ReconcileFailed",
    message: getErrorMessage(fault).slice(0, 8_000),
    observedGeneration: set.metadata.generation ?? 0,
  };
  return { ...set.status, conditions: withConditions(set.status?.conditions, [report], { now }) };
}

const parsed = new WeakMap<CustomObject, CocoonSet>();

/** An object that cannot be read can still be deleted: then only what deletion needs is read. */
function readSet(object: CustomObject): CocoonSet {
  const known = parsed.get(object);
  if (known) return known;
  let set: CocoonSet;
  try {
    set = readCocoonSet(object);
  } catch (error) {
    if (!isFault(error, "invalid") || !isTerminating(object)) throw error;
    set = readLoosely(object);
  }
  parsed.set(object, set);
  return set;
}

function readLoosely(object: CustomObject): CocoonSet {
  const { snapshotPolicy, purge } = readDeletionPolicy(object);
  const spec = { snapshotPolicy, ...(purge ? { deletionPolicy: "Purge" } : {}), agent: { image: "-" } };
  const { metadata, status } = object;
  try {
    return readCocoonSet({ metadata, spec, status });
  } catch {
    return readCocoonSet({ metadata, spec }); // a damaged status is as good as none
  }
}
