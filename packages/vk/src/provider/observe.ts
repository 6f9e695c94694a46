/** Reads everything that the plan for one machine needs. A lookup that gets no answer stops the step. */
import { latestTag } from "@cocoon/contract";
import { isFault, type Abortable, ignoreFault } from "@cocoon/core";
import { nodes, type KubeClient } from "@cocoon/kube";
import type { HibernatedSnapshot } from "@cocoon/machine";
import { buildMacosVmId, type Vm, type VmRuntime } from "@cocoon/vm";
import { findLocalSnapshot, type NodeSnapshots } from "../node-snapshots.ts";
import { readPodMachine, type PodMachine } from "../pod-machine.ts";
import { getFound, isLive, type Desired, type Observed, type ObservedVm } from "./observed.ts";
import { endsAsleep, isSettledAsleep } from "./machine-state.ts";
import { findSandboxHolder } from "./sandbox-holder.ts";
import { findSandboxState } from "./sandbox-owner.ts";
import { findTakenOver, findTakeOver } from "./take-over.ts";
import type { TrackedMachine } from "./tracked-machine.ts";
import { vmLabel } from "./vm-labels.ts";

export interface Sources {
  readonly client: KubeClient;
  readonly runtime: VmRuntime;
  /** Undefined when no registry is configured. */
  readonly snapshots: NodeSnapshots | undefined;
  readonly node: string;
  /** Whether a save can leave a VM paused. */
  readonly canSavePaused: boolean;
}

export type Observation = Observed & { readonly record: Vm | undefined };

export async function observeMachine(
  sources: Sources,
  tracked: TrackedMachine,
  options: Abortable,
): Promise<Observation> {
  const { runtime, snapshots, node, canSavePaused } = sources;
  const machine = readPodMachine(tracked.writer.pod);
  const { vmName, managed } = machine.vm;
  const record = managed ? await findMachineVm(runtime, machine, options) : undefined;
  const local = managed ? await findLocalSnapshot(runtime, vmName, options) : undefined;
  const state = {
    machine,
    desired: readDesired(tracked, machine),
    ending: tracked.ending,
    sandbox: tracked.ending ? await findSandboxState(sources.client, tracked.writer.pod, options) : "none",
    snapshotsSettled: tracked.snapshotsSettled,
    node,
    record,
    vm: record && describeVm(record, machine),
    local: local && { id: local.id, vmId: local.vmId },
    hasRegistry: snapshots !== undefined,
    canSavePaused,
    savedNow: tracked.saved.id,
    pushedAhead: !snapshots?.canPushAhead || tracked.pushedAhead,
    starts: tracked.starts,
    probe: tracked.describeProbe(record),
    wakeFinished: record !== undefined && tracked.finished === record.id,
    reported: record !== undefined && tracked.reported === record.id,
  };
  const takeOver = await findTakeOver(
    sources.client,
    { pod: tracked.writer.pod, machine, vm: record },
    options,
  );
  const found = snapshots && managed ? await lookUp(snapshots, state, options) : notLookedUp;
  const fencedNodes = await findFenced(sources, getFound(found.hibernated), options);
  const bootFacts = await findBootFacts(sources, { tracked, state, found }, options);
  return { ...state, ...found, fencedNodes, ...bootFacts, canTakeOver: takeOver !== undefined };
}

/** Asked only where the next step would be a boot. */
async function findBootFacts(
  { client, node }: Sources,
  { tracked, state, found }: { tracked: TrackedMachine; state: State; found: Lookups },
  options: Abortable,
): Promise<Pick<Observed, "heldBy" | "takenOver">> {
  const { desired, vm, machine } = state;
  if (desired !== "running" || vm || !machine.ofSandbox || getFound(found.hibernated))
    return { heldBy: undefined, takenOver: undefined };
  const { pod } = tracked.writer;
  const takenOver = await findTakenOver(client, pod, options);
  const heldBy = takenOver
    ? undefined
    : await findSandboxHolder({ client, pod, node }, machine.vm.vmName, options);
  return { heldBy, takenOver };
}

type Lookups = Pick<Observed, "hibernated" | "stale" | "latestSnapshotId">;

const notLookedUp: Lookups = { hibernated: "unknown", stale: "unknown", latestSnapshotId: undefined };

async function lookUp(snapshots: NodeSnapshots, state: State, options: Abortable): Promise<Lookups> {
  const { inRegistry } = snapshots;
  const { vmName } = state.machine.vm;
  const ends = state.desired === "gone" && !endsAsleep(state);
  const latest = ends && state.local ? await inRegistry.find(vmName, latestTag, options) : undefined;
  return {
    hibernated: needsHibernated(state) ? await inRegistry.findHibernated(vmName, options) : "unknown",
    stale: needsStale(state) ? await lookUpStale(snapshots, state, options) : "unknown",
    latestSnapshotId: latest?.snapshotId,
  };
}

function readDesired({ ending }: TrackedMachine, machine: PodMachine): Desired {
  if (ending) return "gone";
  return machine.hibernate ? "asleep" : "running";
}

/** A label is written with the VM itself. Engines without labels have the pod's word, for the VM that it names. */
function describeVm(vm: Vm, machine: PodMachine): ObservedVm {
  const { labels } = vm.config;
  const recorded = machine.runtime.vmId === vm.id ? machine.restoredDigest : "";
  return {
    id: vm.id,
    state: vm.state,
    restoredFrom: labels[vmLabel.restoredFrom] ?? recorded,
    namespace: labels[vmLabel.pod]?.split("/")[0] ?? "",
    loading: vm.loading !== undefined,
    hasAnswered: vm.loading?.hasAnswered ?? true,
  };
}

type State = Omit<
  Observed,
  "hibernated" | "fencedNodes" | "heldBy" | "takenOver" | "canTakeOver" | "stale" | "latestSnapshotId"
>;

/** A machine that runs, or whose hibernation was published, is settled without the registry: no call in steady state. */
function needsHibernated(state: State): boolean {
  const { desired, machine, vm } = state;
  if (desired === "gone" && !endsAsleep(state)) return !vm && machine.recordedDigest !== "";
  if (desired !== "running") return vm !== undefined || !isSettledAsleep({ ...machine, hibernate: true });
  // One that was recorded and whose VM died before it was removed has its memory in the registry.
  return !vm || (!isLive(vm) && machine.recordedDigest !== "");
}

/** Once after the machine became ready, and at its deletion. */
function needsStale(state: State): boolean {
  const { desired, vm, probe, wakeFinished } = state;
  if (desired === "gone") return vm !== undefined && !endsAsleep(state);
  const ready = probe.running && probe.published && probe.result?.ok === true;
  return desired === "running" && vm?.state === "running" && !vm.loading && ready && !wakeFinished;
}

async function lookUpStale(
  { inRegistry }: NodeSnapshots,
  { machine, desired }: State,
  options: Abortable,
): Promise<Observed["stale"]> {
  try {
    return await inRegistry.findHibernatedOrigin(machine.vm.vmName, options);
  } catch (error) {
    // A deletion fails and is retried; a machine that is ready stays ready.
    if (desired === "gone" || options.signal.aborted || !isFault(error)) throw error;
    return "unavailable";
  }
}

/** macOS guests are kept by another program, under ids that are made from their names. */
export async function findMachineVm(
  runtime: VmRuntime,
  { vm: { vmName }, isMacos }: PodMachine,
  options: Abortable,
): Promise<Vm | undefined> {
  const found = await findVm(runtime, isMacos ? buildMacosVmId(vmName) : vmName, options);
  return found?.name === vmName ? found : undefined;
}

/** By exact name or id. */
export async function findVm(
  runtime: VmRuntime,
  ref: string,
  { signal }: Abortable,
): Promise<Vm | undefined> {
  const found = await ignoreFault("notFound", runtime.inspect(ref, { signal }));
  return found?.name === ref || found?.id === ref ? found : undefined;
}

/** Nodes that hibernated or claimed the snapshot and can no longer run anything. */
async function findFenced(
  { client, node }: Sources,
  snapshot: HibernatedSnapshot | undefined,
  options: Abortable,
): Promise<readonly string[]> {
  if (!snapshot) return [];
  const others = new Set(
    [snapshot.fromNode, ...snapshot.claims].filter((each) => each !== "" && each !== node),
  );
  const fenced: string[] = [];
  for (const other of others) if (await isFenced(client, other, options)) fenced.push(other);
  return fenced;
}

/** The Node object is gone, or has the out-of-service taint: an administrator vouches that nothing runs there. */
async function isFenced(client: KubeClient, name: string, { signal }: Abortable): Promise<boolean> {
  try {
    const found = await client.get(nodes, { name }, { signal });
    return found.spec?.taints?.some((taint) => taint.key === "node.kubernetes.io/out-of-service") ?? false;
  } catch (error) {
    if (isFault(error, "notFound")) return true;
    throw error;
  }
}
