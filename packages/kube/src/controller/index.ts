/**
 * controller: what a controller is made of. A work queue that decides what is looked at next, a loop that runs
 * reconciles from it, leader election so that one replica acts, a view that shows our own writes before the cache
 * does, events for people, and helpers that change only what they own.
 *
 * Objects come from a `Source`, which a cache is; nothing here lists or watches. Product words live elsewhere.
 */
export { clockSleep, systemClock, type Clock } from "./clock.ts";
export {
  findCondition,
  isConditionTrue,
  mergeConditions,
  withoutCondition,
  type WantedCondition,
} from "./conditions.ts";
export {
  startController,
  type Controller,
  type ControllerOptions,
  type Reconcile,
  type ReconcileContext,
} from "./controller.ts";
export { referenceTo, type EventInput, type EventReference } from "./event-object.ts";
export { startEventRecorder, type EventRecorder, type EventRecorderOptions } from "./event-recorder.ts";
export type { ReconcileFailure } from "./failure-log.ts";
export { addFinalizer, hasFinalizer, removeFinalizer, type FinalizerTarget } from "./finalizers.ts";
export { guardedClient } from "./guarded-client.ts";
export { lead, type LeaderElectionOptions } from "./leader-election.ts";
export type { Leadership } from "./leadership.ts";
export {
  annotationChanges,
  patchAnnotations,
  patchChanges,
  type ChangeOptions,
  type ChangeTarget,
  type WantedTexts,
} from "./merge-writes.ts";
export { requeue, settled, type Outcome } from "./outcome.ts";
export { OwnWrites, type OwnWritesOptions } from "./own-writes.ts";
export {
  controllerOf,
  controllerReference,
  isControlledBy,
  withOwner,
  withoutOwner,
} from "./owner-references.ts";
export {
  allOf,
  annotationsChanged,
  anyOf,
  deletionStarted,
  finalizersChanged,
  generationChanged,
  labelsChanged,
  onUpdate,
  type Predicate,
} from "./predicates.ts";
export type { Change, Source } from "./source.ts";
export {
  watchMapped,
  watchObjects,
  watchOwned,
  type MappedWatchOptions,
  type OwnedWatchOptions,
  type Watch,
  type WatchListener,
  type WatchOptions,
} from "./watches.ts";
export { WorkQueue, type Lane, type WorkQueueOptions, type WorkQueueStats } from "./work-queue.ts";
