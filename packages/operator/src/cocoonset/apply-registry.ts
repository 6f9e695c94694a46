/**
 * The steps of a plan that change snapshots in the registry. What cannot be undone is not done by what a cache shows:
 * the API server is read again first.
 */
import { label } from "@cocoon/contract";
import { Fault, getErrorMessage, ignoreFault, type Abortable } from "@cocoon/core";
import { getKey, pods, type Pod } from "@cocoon/kube";
import { isControlledBy, referenceTo } from "@cocoon/kube/controller";
import type { Settlement } from "@cocoon/machine";
import { cocoonSets } from "../kinds.ts";
import { readMachine, type Machine } from "../pod-machine.ts";
import type { ApplyContext } from "./apply.ts";
import type { Action } from "./draft.ts";

type RegistryAction = Extract<
  Action,
  { kind: "dropSnapshot" | "releaseSnapshot" | "settleSnapshots" | "expireSnapshots" }
>;

export function applyToRegistry(context: ApplyContext, action: RegistryAction): Promise<void> {
  switch (action.kind) {
    case "dropSnapshot":
      return dropSnapshot(context, action);
    case "releaseSnapshot":
      return releaseSnapshot(context, action);
    case "expireSnapshots":
      return expireSnapshots(context, action);
    default:
      return settleSnapshots(context, action);
  }
}

async function dropSnapshot(
  { parts, signal, log }: ApplyContext,
  { machine, digest }: Extract<Action, { kind: "dropSnapshot" }>,
): Promise<void> {
  const { vmName } = machine.vm;
  const current = await readAgain(parts.client, machine.pod, { signal });
  const { awake, ready, loading, restoredDigest }: Partial<Machine> = current ? readMachine(current) : {};
  if (!awake || !ready || loading || restoredDigest !== digest)
    throw new Fault("conflict", `${machine.podName} changed: snapshot ${digest} of ${vmName} is kept`);
  const { namespace = "" } = machine.pod.metadata;
  await parts.snapshots.drop(vmName, { digest, namespace, restoredFrom: restoredDigest }, { signal });
  log.info({ pod: machine.podName, vm: vmName, digest }, "snapshot of a woken machine dropped");
}

/** The pod as the API server has it; undefined when it is not there, or is another one of the same name. */
export async function readAgain(
  client: ApplyContext["parts"]["client"],
  pod: Pod,
  { signal }: Abortable,
): Promise<Pod | undefined> {
  const current = await ignoreFault("notFound", client.get(pods, getKey(pod), { signal }));
  return current?.metadata.uid === pod.metadata.uid ? current : undefined;
}

async function releaseSnapshot(
  { parts, set, signal, log }: ApplyContext,
  { vmName, digest }: Extract<Action, { kind: "releaseSnapshot" }>,
): Promise<void> {
  const { namespace = "" } = set.metadata;
  const request = { at: parts.now(), namespace, ...(digest === undefined ? {} : { digest }) };
  const released = await parts.snapshots.release(vmName, request, { signal });
  if (released) log.info({ vm: vmName, digest: released.digest }, "snapshot released");
}

async function expireSnapshots(
  { parts, set, signal, log }: ApplyContext,
  { vmNames, afterMs, keep }: Extract<Action, { kind: "expireSnapshots" }>,
): Promise<void> {
  const { namespace = "" } = set.metadata;
  try {
    for (const vmName of vmNames) {
      const retention = { namespace, afterMs, keep, now: parts.now() };
      const tags = await parts.snapshots.expire(vmName, retention, { signal });
      if (tags.length > 0) log.info({ vm: vmName, tags }, "snapshots expired");
    }
  } catch (error) {
    if (signal.aborted) throw error;
    // Old snapshots can wait for the next period; the machines cannot.
    log.warn({ error: getErrorMessage(error) }, "expired snapshots could not be removed");
  }
  parts.expiredAt.set(set.metadata.uid ?? "", parts.now().getTime());
}

/** A registry that stays unavailable does not hold a deletion up for ever; what is left then is reported. */
const settleTimeoutMs = 10 * 60_000;

/** One machine after the other: few connections, used again and again, cost less than many short ones. */
async function settleSnapshots(
  context: ApplyContext,
  { vmNames, keep, purge }: Extract<Action, { kind: "settleSnapshots" }>,
): Promise<void> {
  let confirmed: Promise<void> | undefined;
  const confirm = () => (confirmed ??= assertDeleted(context));
  const at = context.parts.now();
  const { namespace = "" } = context.set.metadata;
  for (const vmName of vmNames)
    await settleSnapshot(context, vmName, { namespace, keep: keep.includes(vmName), purge, at, confirm });
}

/** The set is terminating and has no pods, by the API server itself. */
async function assertDeleted({ parts, set, signal }: ApplyContext): Promise<void> {
  const { namespace, name } = getKey(set);
  const labelSelector = `${label.set}=${name}`;
  const [current, { items }] = await Promise.all([
    parts.client.get(cocoonSets, { namespace, name }, { signal }),
    parts.client.list(pods, { ...(namespace ? { namespace } : {}), labelSelector, signal }),
  ]);
  const { uid, deletionTimestamp } = current.metadata;
  if (uid !== set.metadata.uid || deletionTimestamp === undefined)
    throw new Fault("conflict", `CocoonSet ${namespace}/${name} is not terminating any more`);
  const left = items.filter((pod) => isControlledBy(pod, set)).map(({ metadata }) => metadata.name);
  if (left.length > 0) throw new Fault("conflict", `pods are still there: ${left.join(", ")}`);
}

async function settleSnapshot(
  { parts, set, signal, log }: ApplyContext,
  vmName: string,
  settlement: Settlement,
): Promise<void> {
  try {
    await parts.snapshots.settle(vmName, settlement, { signal });
  } catch (error) {
    const deletedAt = Date.parse(set.metadata.deletionTimestamp ?? "");
    if (signal.aborted || parts.now().getTime() < deletedAt + settleTimeoutMs) throw error;
    log.error({ vm: vmName, error: getErrorMessage(error) }, "snapshots left behind");
    parts.events.record(referenceTo(cocoonSets, set), {
      type: "Warning",
      reason: "SnapshotsLeftBehind",
      message: `snapshots of ${vmName} could not be settled: ${getErrorMessage(error)}`,
    });
  }
}
