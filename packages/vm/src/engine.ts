/** engine: what the engines behind `VmRuntime` have in common. */
export { Consoles } from "./consoles.ts";
export { EventQueue } from "./events/event-queue.ts";
export { eventsBetween } from "./events/vm-events.ts";
export {
  assertSnapshotName,
  assertVmName,
  findByRef,
  idPattern,
  newId,
  snapshotNotFound,
  vmNotFound,
} from "./ids.ts";
export { LeaseFile, parseLeases, writeLeases, type Lease } from "./leases/leases.ts";
