/**
 * machine: the one model of a machine. `readMachine` reads a pod as the machine it stands for; `MachineSnapshots` is the only
 * implementation of a machine's snapshots in the registry: find, push, verify, seal, claim, retag, release, settle, expire,
 * adopt, drop.
 *
 * It has no Kubernetes client and no runtime: pods come in as data, files of a snapshot as paths. What happens next with a
 * machine is decided by its users: the kubelet (`vk`) for the VM on a node, the operator for sets.
 */
export { readMachine, type HibernateReason, type Machine, type MachineRole } from "./machine.ts";
export { type MachinePod } from "./machine-pod.ts";
export { MachineSnapshots } from "./machine-snapshots.ts";
export { type Drop, type DropOutcome, type Released, type Settlement } from "./snapshots/drop.ts";
export { type HibernatedSnapshot, type SnapshotInfo, type StoredSnapshot } from "./snapshots/find.ts";
export { type PushRequest } from "./snapshots/push.ts";
export { type Retention } from "./snapshots/retention.ts";
