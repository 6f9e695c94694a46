/** One CocoonHibernation: look, plan, do, and say how it stands. */
import {
  apiGroup,
  finalizer,
  hibernationCondition,
  readCocoonHibernation,
  readCocoonSet,
  withConditions,
  type CocoonHibernation,
} from "@cocoon/contract";
import { createMergePatch, isFault, messageOf, type Abortable, type Logger } from "@cocoon/core";
import { keyOf, type KubeClient, type ObjectKey, type Pod } from "@cocoon/kube";
import {
  addFinalizer,
  annotationChanges,
  controllerOf,
  hasFinalizer,
  referenceTo,
  removeFinalizer,
  requeue,
  settled,
  type EventRecorder,
  type Outcome,
  type OwnWrites,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { readSchedule } from "../cocoonset/wishes.ts";
import type { TagAnswer } from "../cocoonset/world.ts";
import { cocoonHibernations, type CustomObject } from "../kinds.ts";
import { readMachine } from "../machine.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { overlayClient } from "../overlay-client.ts";
import type { Snapshots } from "../snapshot-store.ts";
import { planHibernation, retryTextOf, type HibernationPlan } from "./plan.ts";
import type { HibernationWorld } from "./world.ts";

export interface HibernationParts {
  readonly client: KubeClient;
  readonly hibernations: OwnWrites<CustomObject>;
  readonly pods: OwnWrites<Pod>;
  readonly sets: OwnWrites<CustomObject>;
  readonly snapshots: Snapshots;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly log: Logger;
  readonly now: () => Date;
}

const mostRounds = 12;

export class HibernationReconciler {
  readonly #parts: HibernationParts;

  constructor(parts: HibernationParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Outcome> {
    let tag: TagAnswer | undefined;
    for (let round = 0; round < mostRounds; round += 1) {
      const object = this.#parts.hibernations.get(key);
      if (!object) return settled;
      const hibernation = await this.#read(object, context);
      if (!hibernation || isFinished(hibernation)) return settled;
      const world = this.#observe(hibernation, tag);
      const plan = planHibernation(world);
      if (plan.ask) {
        tag = await this.#ask(world, context);
        continue;
      }
      if (await this.#apply(world, plan, context)) continue;
      if (plan.retry) return requeue(0, "the registry could not be asked");
      return plan.lookAgainMs === undefined
        ? settled
        : requeue(Math.max(100, plan.lookAgainMs), "its time is up then");
    }
    return requeue(0, `not at rest after ${mostRounds} rounds`);
  }

  /** An object that cannot be read says so in its status; one that is being deleted is let go. */
  async #read(object: CustomObject, { signal }: Abortable): Promise<CocoonHibernation | undefined> {
    try {
      return readCocoonHibernation(object);
    } catch (error) {
      if (!isFault(error, "invalid")) throw error;
      if (object.metadata.deletionTimestamp !== undefined) await this.#letGo(object, { signal });
      else await this.#writeInvalid(object, messageOf(error), { signal });
      return undefined;
    }
  }

  #observe(hibernation: CocoonHibernation, tag: TagAnswer | undefined): HibernationWorld {
    const { namespace } = hibernation.metadata;
    const pod = this.#parts.pods.get({ namespace, name: hibernation.spec.podRef.name });
    const living = pod && pod.metadata.deletionTimestamp === undefined ? pod : undefined;
    const owner = living ? ownerOf(living) : "";
    return {
      hibernation,
      machine: living && readMachine(living),
      ownerSet: owner,
      setSuspended: owner !== "" && this.#isSuspended({ namespace, name: owner }),
      tag,
      retryText: retryTextOf(hibernation.metadata.annotations),
      now: this.#parts.now(),
    };
  }

  #isSuspended(key: ObjectKey): boolean {
    const object = this.#parts.sets.get(key);
    if (!object) return false;
    try {
      const set = readCocoonSet(object);
      return set.spec.suspend === true || readSchedule({ set, now: this.#parts.now() }).asleep;
    } catch (error) {
      if (isFault(error, "invalid")) return false;
      throw error;
    }
  }

  async #ask({ machine }: HibernationWorld, { signal }: Abortable): Promise<TagAnswer> {
    try {
      const digest = await this.#parts.snapshots.sleeping(machine?.vm.vmName ?? "", { signal });
      return digest === undefined ? { kind: "absent" } : { kind: "there", digest };
    } catch (error) {
      if (signal.aborted) throw error;
      return { kind: "unknown", message: messageOf(error) };
    }
  }

  /** Whether something was done that is worth another look. The finalizer comes first, the status before the pod. */
  async #apply(
    world: HibernationWorld,
    plan: HibernationPlan,
    { signal }: ReconcileContext,
  ): Promise<boolean> {
    const { hibernation, machine } = world;
    if (plan.addFinalizer) {
      await addFinalizer(this.#finalizerTarget(hibernation), { signal });
      return true;
    }
    if (plan.drop !== undefined && machine)
      await this.#parts.snapshots.drop(machine.vm.vmName, plan.drop, { signal });
    const written = plan.removeFinalizer ? false : await this.#writeStatus(hibernation, plan, { signal });
    const changed =
      machine && plan.podChanges ? await this.#changePod(machine.pod, plan.podChanges, { signal }) : false;
    if (plan.removeFinalizer) await this.#letGo(hibernation, { signal });
    return written || changed || plan.removeFinalizer;
  }

  async #writeStatus(
    hibernation: CocoonHibernation,
    plan: HibernationPlan,
    { signal }: Abortable,
  ): Promise<boolean> {
    const body = createMergePatch(hibernation.status ?? {}, plan.status);
    if (body === undefined) return false;
    const { uid } = hibernation.metadata;
    const patch = { type: "merge", body: { metadata: { uid }, status: body } } as const;
    await this.#parts.hibernations.patch(
      { key: keyOf(hibernation), patch },
      { signal, subresource: "status" },
    );
    this.#tell(hibernation, plan);
    return true;
  }

  #tell(hibernation: CocoonHibernation, { happenings, duration }: HibernationPlan): void {
    const { events, metrics } = this.#parts;
    for (const happening of happenings)
      events.record(referenceTo(cocoonHibernations, hibernation), happening);
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
    try {
      await this.#parts.pods.patch({ key: keyOf(pod), patch: { type: "merge", body } }, { signal });
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
    }
    return true;
  }

  async #letGo(object: CustomObject, { signal }: Abortable): Promise<void> {
    await removeFinalizer(this.#finalizerTarget(object), { signal });
  }

  async #writeInvalid(object: CustomObject, message: string, { signal }: Abortable): Promise<void> {
    const generation = object.metadata.generation ?? 0;
    const before = object.status as { observedGeneration?: number; phase?: string } | undefined;
    if (before?.phase === "Failed" && before.observedGeneration === generation) return;
    const reports = [hibernationCondition("Failed", generation, message)];
    const conditions = withConditions([], reports, { now: this.#parts.now() });
    const body = { status: { phase: "Failed", observedGeneration: generation, conditions } };
    await this.#parts.hibernations.patch(
      { key: keyOf(object), patch: { type: "merge", body } },
      { signal, subresource: "status" },
    );
  }

  /** Patches go through the overlay, so that the next look sees them. */
  #finalizerTarget(object: CustomObject) {
    const { client, hibernations } = this.#parts;
    const overlaid = overlayClient(client, hibernations);
    return { client: overlaid, type: cocoonHibernations, object, finalizer: finalizer.cocoonHibernation };
  }
}

/** The set of the current API that looks after the pod; "" when there is none. */
function ownerOf(pod: Pod): string {
  const owner = controllerOf(pod);
  return owner?.kind === "CocoonSet" && owner.apiVersion.startsWith(`${apiGroup}/`) ? owner.name : "";
}

function isFinished(hibernation: CocoonHibernation): boolean {
  return (
    hibernation.metadata.deletionTimestamp !== undefined &&
    !hasFinalizer(hibernation, finalizer.cocoonHibernation)
  );
}
