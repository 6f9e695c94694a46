/**
 * controller: work queue, reconcile loop, leader election, own writes before the cache shows them, events, finalizers. Objects
 * come from a `Source`, which a cache is; nothing here lists or watches.
 */
export {
  startController,
  type Controller,
  type ControllerOptions,
  type ReconcileContext,
} from "./controller.ts";
export { referenceTo } from "./event-object.ts";
export { startEventRecorder, type EventRecorder } from "./event-recorder.ts";
export { addFinalizer, hasFinalizer, removeFinalizer } from "./finalizers.ts";
export { guardedClient, type Leadership } from "./leadership.ts";
export { lead } from "./leader-election.ts";
export {
  annotationChanges,
  findController,
  controllerReference,
  isControlledBy,
  withoutOwner,
} from "./owner-references.ts";
export { TokenBucket } from "./token-bucket.ts";
export { requeue, settled, type Outcome } from "./reconcile-run.ts";
export { OwnWrites } from "./own-writes.ts";
export {
  generationChanged,
  onUpdate,
  watchMapped,
  watchObjects,
  watchOwned,
  type Predicate,
  type Change,
  type Source,
} from "./watches.ts";
