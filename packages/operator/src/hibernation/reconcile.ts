/** One CocoonHibernation: observe, plan, apply, and write the status. */
import {
  apiGroup,
  finalizer,
  hibernationCondition,
  readCocoonHibernation,
  readCocoonSet,
  withConditions,
  type CocoonHibernation,
} from "@cocoon/contract";
import { Fault, getErrorMessage, ignoreFault, isFault, type Abortable } from "@cocoon/core";
import { getKey, keyText, type ObjectKey, type Pod } from "@cocoon/kube";
import {
  addFinalizer,
  annotationChanges,
  findController,
  hasFinalizer,
  referenceTo,
  removeFinalizer,
  requeue,
  settled,
  type Outcome,
  type OwnWrites,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { readAgain } from "../cocoonset/apply-registry.ts";
import { readExpiry, readSchedule } from "../cocoonset/desired-power.ts";
import type { TagAnswer } from "../cocoonset/observed-set.ts";
import type { SetParts } from "../cocoonset/parts.ts";
import { cocoonHibernations, patchStatus, type CustomObject } from "../kinds.ts";
import { readMachine, type Machine } from "../pod-machine.ts";
import { planHibernation, readRetryText, type HibernationPlan } from "./plan.ts";
import type { ObservedHibernation } from "./status.ts";

export interface HibernationParts extends Pick<
  SetParts,
  "client" | "pods" | "sets" | "snapshots" | "events" | "metrics" | "now"
> {
  readonly hibernations: OwnWrites<CustomObject>;
}

const maxRounds = 12;

export class HibernationReconciler {
  readonly #parts: HibernationParts;

  constructor(parts: HibernationParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    let tag: TagAnswer | undefined;
    for (let round = 0; round < maxRounds; round += 1) {
      const object = this.#parts.hibernations.get(key);
      if (!object) return settled;
      const hibernation = await this.#read(object, context);
      if (!hibernation || isFinished(hibernation)) return settled;
      const observed = this.#observe(hibernation, tag);
      const plan = planHibernation(observed);
      if (plan.needsLookup) {
        tag = await this.#lookUp(observed, context);
        continue;
      }
      if (await this.#apply(observed, plan, context)) continue;
      if (plan.retry) return requeue(0, "the registry could not be asked");
      return plan.requeueAfterMs === undefined
        ? settled
        : requeue(Math.max(100, plan.requeueAfterMs), "its time is up then");
    }
    return requeue(0, `not at rest after ${maxRounds} rounds`);
  }

  /** The status of an object that cannot be read has the reason; a terminating one loses its finalizer. */
  async #read(object: CustomObject, { signal }: Abortable): Promise<CocoonHibernation | undefined> {
    try {
      return readCocoonHibernation(object);
    } catch (error) {
      if (!isFault(error, "invalid")) throw error;
      if (object.metadata.deletionTimestamp !== undefined) await this.#letGo(object, { signal });
      else await this.#writeInvalid(object, getErrorMessage(error), { signal });
      return undefined;
    }
  }

  #observe(hibernation: CocoonHibernation, tag: TagAnswer | undefined): ObservedHibernation {
    const { namespace } = hibernation.metadata;
    const pod = this.#parts.pods.get({ namespace, name: hibernation.spec.podRef.name });
    const living = pod && pod.metadata.deletionTimestamp === undefined ? pod : undefined;
    const owner = living ? findOwnerSet(living) : "";
    return {
      hibernation,
      machine: living && readMachine(living),
      ownerSet: owner,
      setSuspended: owner !== "" && this.#isSuspended({ namespace, name: owner }),
      tag,
      retryText: readRetryText(hibernation.metadata.annotations),
      now: this.#parts.now(),
    };
  }

  #isSuspended(key: ObjectKey): boolean {
    const object = this.#parts.sets.get(key);
    const set = object && ignoreFault("invalid", () => readCocoonSet(object));
    if (!set) return false;
    const now = this.#parts.now();
    return set.spec.suspend === true || readSchedule({ set, now }).asleep || readExpiry({ set, now }).expired;
  }

  async #lookUp({ machine }: ObservedHibernation, { signal }: Abortable): Promise<TagAnswer> {
    try {
      const digest = await this.#parts.snapshots.findHibernatedDigest(machine?.vm.vmName ?? "", { signal });
      return digest === undefined ? { kind: "absent" } : { kind: "there", digest };
    } catch (error) {
      if (signal.aborted) throw error;
      return { kind: "unknown", message: getErrorMessage(error) };
    }
  }

  /** Whether something was done that is worth another look. The finalizer comes first, the status before the pod. */
  async #apply(
    observed: ObservedHibernation,
    plan: HibernationPlan,
    { signal }: ReconcileContext,
  ): Promise<boolean> {
    const { hibernation, machine } = observed;
    if (plan.addFinalizer) {
      await addFinalizer(this.#finalizerTarget(hibernation), { signal });
      return true;
    }
    if (plan.drop !== undefined && machine) await this.#drop(machine, plan.drop, { signal });
    const written = plan.removeFinalizer ? false : await this.#writeStatus(hibernation, plan, { signal });
    const changed =
      machine && plan.podChanges ? await this.#changePod(machine.pod, plan.podChanges, { signal }) : false;
    if (plan.removeFinalizer) await this.#letGo(hibernation, { signal });
    return written || changed || plan.removeFinalizer;
  }

  /** What cannot be undone is not done by what a cache shows. */
  async #drop({ pod, vm }: Machine, digest: string, { signal }: Abortable): Promise<void> {
    const current = await readAgain(this.#parts.client, pod, { signal });
    const { awake, loading, restoredDigest }: Partial<Machine> = current ? readMachine(current) : {};
    if (!awake || loading || restoredDigest !== digest)
      throw new Fault("conflict", `${keyText(getKey(pod))} changed: snapshot ${digest} is kept`);
    const { namespace = "" } = pod.metadata;
    const proof = { digest, namespace, restoredFrom: restoredDigest };
    await this.#parts.snapshots.drop(vm.vmName, proof, { signal });
  }

  async #writeStatus(object: CocoonHibernation, plan: HibernationPlan, options: Abortable): Promise<boolean> {
    const { status } = plan;
    const written = await patchStatus(this.#parts.hibernations, { object, status }, options);
    if (written) this.#emit(object, plan);
    return written;
  }

  #emit(hibernation: CocoonHibernation, { events, duration }: HibernationPlan): void {
    const { events: recorder, metrics } = this.#parts;
    for (const event of events) recorder.record(referenceTo(cocoonHibernations, hibernation), event);
    if (!duration) return;
    const histogram = duration.of === "hibernate" ? metrics.hibernateSeconds : metrics.wakeSeconds;
    histogram.observe({ result: duration.result }, duration.ms / 1000);
  }

  async #changePod(
    pod: Pod,
    wanted: Readonly<Record<string, string | null>>,
    { signal }: Abortable,
  ): Promise<boolean> {
    const annotations = annotationChanges(pod, wanted);
    if (!annotations) return false;
    const body = { metadata: { uid: pod.metadata.uid, annotations } };
    const patch = { type: "merge", body } as const;
    await ignoreFault("notFound", this.#parts.pods.patch({ key: getKey(pod), patch }, { signal }));
    return true;
  }

  async #letGo(object: CustomObject, { signal }: Abortable): Promise<void> {
    await removeFinalizer(this.#finalizerTarget(object), { signal });
  }

  async #writeInvalid(object: CustomObject, message: string, options: Abortable): Promise<void> {
    const generation = object.metadata.generation ?? 0;
    const before = object.status as { observedGeneration?: number; phase?: string } | undefined;
    if (before?.phase === "Failed" && before.observedGeneration === generation) return;
    const reports = [hibernationCondition("Failed", generation, message)];
    const conditions = withConditions([], reports, { now: this.#parts.now() });
    const status = { ...before, phase: "Failed", observedGeneration: generation, conditions };
    await patchStatus(this.#parts.hibernations, { object, status }, options);
  }

  #finalizerTarget(object: CustomObject) {
    const { client, hibernations: writes } = this.#parts;
    return { client, writes, type: cocoonHibernations, object, finalizer: finalizer.cocoonHibernation };
  }
}

/** The set of the current API that looks after the pod; "" when there is none. */
function findOwnerSet(pod: Pod): string {
  const owner = findController(pod);
  return owner?.kind === "CocoonSet" && owner.apiVersion.startsWith(`${apiGroup}/`) ? owner.name : "";
}

function isFinished(hibernation: CocoonHibernation): boolean {
  return (
    hibernation.metadata.deletionTimestamp !== undefined &&
    !hasFinalizer(hibernation, finalizer.cocoonHibernation)
  );
}
