/** One set: look, plan, do, look again until nothing is left to do; then say how it stands. */
import {
  finalizer,
  readCocoonSet,
  readDeletionWishes,
  withConditions,
  type CocoonSet,
  type CocoonSetStatus,
} from "@cocoon/contract";
import { isFault, messageOf, toFault, type Abortable, type Fault, type FaultCode } from "@cocoon/core";
import type { ObjectKey } from "@cocoon/kube";
import { hasFinalizer, requeue, settled, type Outcome, type ReconcileContext } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import { applyActions } from "./apply.ts";
import { AskedTags } from "./asked-tags.ts";
import type { SetPlan } from "./draft.ts";
import { observeSet } from "./observe.ts";
import type { SetParts } from "./parts.ts";
import { planSet } from "./plan.ts";
import { statusOf } from "./status.ts";
import type { TagAnswer, World } from "./world.ts";
import { StatusWriter } from "./write-status.ts";

/** More rounds than any way through the plan has. */
const mostRounds = 20;

export class SetReconciler {
  readonly #parts: SetParts;
  readonly #statuses: StatusWriter;

  constructor(parts: SetParts) {
    this.#parts = parts;
    this.#statuses = new StatusWriter(parts);
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.sets.get(key);
    if (!object) return settled;
    try {
      return await this.#settle(key, context);
    } catch (error) {
      await this.#reportFailure(key, error, context);
      throw error;
    }
  }

  async #settle(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    const asked = new AskedTags();
    for (let round = 0; round < mostRounds; round += 1) {
      const object = this.#parts.sets.get(key);
      if (!object || isFinished(object)) {
        this.#statuses.forget(object?.metadata.uid ?? "");
        return settled;
      }
      const world = observeSet(this.#parts, readSet(object), asked);
      const plan = planSet(world);
      if (plan.asks.length > 0) {
        await this.#ask(plan.asks, { asked, machines: world.machines }, context);
        continue;
      }
      if (!(await this.#apply(world, plan, context))) return this.#conclude(world, plan, context);
      if (plan.actions.some(({ kind }) => kind === "dropSleeping" || kind === "releaseSleeping"))
        asked.clear();
    }
    return requeue(0, `not at rest after ${mostRounds} rounds`);
  }

  async #ask(
    vmNames: readonly string[],
    { asked, machines }: { readonly asked: AskedTags; readonly machines: World["machines"] },
    { signal }: Abortable,
  ): Promise<void> {
    const note = (vmName: string, answer: TagAnswer) => asked.note(vmName, machines, answer);
    await Promise.all(
      vmNames.map(async (vmName) => {
        try {
          const digest = await this.#parts.snapshots.sleeping(vmName, { signal });
          note(vmName, digest === undefined ? { kind: "absent" } : { kind: "there", digest });
        } catch (error) {
          if (signal.aborted) throw error;
          note(vmName, { kind: "unknown", message: messageOf(error) });
        }
      }),
    );
  }

  #apply(world: World, plan: SetPlan, { signal, log }: ReconcileContext): Promise<boolean> {
    const { set } = world;
    let written: Promise<void> | undefined;
    const persistStatus = () => (written ??= this.#statuses.write(set, statusOf(world, plan), { signal }));
    return applyActions({ parts: this.#parts, set, signal, log, persistStatus }, plan.actions);
  }

  async #conclude(world: World, plan: SetPlan, { signal }: ReconcileContext): Promise<Outcome> {
    const deleting = world.set.metadata.deletionTimestamp !== undefined;
    const heldMs = deleting
      ? 0
      : await this.#statuses.writeSoon(world.set, statusOf(world, plan), { signal });
    if (plan.retry) return requeue(0, "the registry could not be asked");
    const waits = [heldMs, plan.lookAgainMs ?? 0].filter((ms) => ms > 0);
    // A time that has come already is looked at again in a moment: clocks are not that exact.
    if (plan.lookAgainMs === 0) waits.push(100);
    return waits.length === 0 ? settled : requeue(Math.min(...waits), "something is due then");
  }

  /** Failures reach the status; a failure to say so is not worth another. */
  async #reportFailure(key: ObjectKey, error: unknown, { signal, log }: ReconcileContext): Promise<void> {
    const object = this.#parts.sets.get(key);
    const fault = toFault(error);
    if (!object || signal.aborted || fault.code === "conflict") return;
    try {
      const set = readLoosely(object);
      await this.#statuses.write(set, degraded(set, fault, this.#parts.now()), { signal });
    } catch (writeError) {
      log.warn({ error: messageOf(writeError) }, "failure could not be written to the status");
    }
  }
}

/** Being deleted, and nothing of ours holds it any more. */
function isFinished({ metadata }: CustomObject): boolean {
  return metadata.deletionTimestamp !== undefined && !hasFinalizer({ metadata }, finalizer.cocoonSet);
}

const reasonOf: Partial<Record<FaultCode, string>> = {
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
    reason: reasonOf[fault.code] ?? "ReconcileFailed",
    message: messageOf(fault).slice(0, 8_000),
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
    if (!isFault(error, "invalid") || object.metadata.deletionTimestamp === undefined) throw error;
    set = readLoosely(object);
  }
  parsed.set(object, set);
  return set;
}

function readLoosely(object: CustomObject): CocoonSet {
  const { snapshotPolicy, purge } = readDeletionWishes(object);
  const spec = { snapshotPolicy, ...(purge ? { deletionPolicy: "Purge" } : {}), agent: { image: "-" } };
  const { metadata, status } = object;
  try {
    return readCocoonSet({ metadata, spec, status });
  } catch {
    return readCocoonSet({ metadata, spec }); // a damaged status is as good as none
  }
}
