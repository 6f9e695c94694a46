/** Reads everything about one set, from memory only; what the registry was asked before is handed in. */
import {
  grants,
  legacyApiGroup,
  nodeLabel,
  readCocoonHibernation,
  readSnapshotGrant,
  type CocoonHibernation,
  type CocoonSet,
} from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { compareQuantities, tryParseQuantity, type Quantity } from "@cocoon/core/quantity";
import { keyOf, keyText, type Node, type Pod } from "@cocoon/kube";
import { isConditionTrue, isControlledBy } from "@cocoon/kube/controller";
import { readMachine, type Machine } from "../machine.ts";
import type { AskedTags } from "./asked-tags.ts";
import { allMembers, keyOfSet, membersOf, type Members } from "./members.ts";
import type { SetParts } from "./parts.ts";
import { retentionPeriodMs, type NodeFacts, type World } from "./world.ts";

export function observeSet(parts: SetParts, set: CocoonSet, asked: AskedTags): World {
  const owned = parts.pods.merge(parts.podsByOwner.get(set.metadata.uid ?? ""), (pod) =>
    isControlledBy(pod, set),
  );
  const machines = owned.map(readMachine).sort((left, right) => (left.podName < right.podName ? -1 : 1));
  const members = membersOf(set);
  return {
    set,
    members,
    machines,
    hibernations: hibernationsOf(parts, set, { members, machines }),
    taken: takenNames(parts, set, { members, machines }),
    node: (name) => nodeFacts(parts, name),
    tags: asked.forMachines(machines),
    sourceTrouble: sourceTrouble(parts, set),
    retentionDue: retentionIsDue(parts, set),
    legacyKeys: isBridged(set),
    now: parts.now(),
  };
}

function isBridged({ metadata }: CocoonSet): boolean {
  return (
    metadata.ownerReferences?.some(({ apiVersion }) => apiVersion.startsWith(`${legacyApiGroup}/`)) ?? false
  );
}

function retentionIsDue({ expiredAt, now }: SetParts, { metadata }: CocoonSet): boolean {
  return now().getTime() - (expiredAt.get(metadata.uid ?? "") ?? 0) >= retentionPeriodMs;
}

interface Population {
  readonly members: Members;
  readonly machines: readonly Machine[];
}

function hibernationsOf(
  parts: SetParts,
  set: CocoonSet,
  { members, machines }: Population,
): ReadonlyMap<string, CocoonHibernation> {
  const { namespace } = keyOfSet(set);
  const names = new Set([...allMembers(members), ...machines].map(({ podName }) => podName));
  const found = new Map<string, CocoonHibernation>();
  for (const name of names) {
    const [object] = parts.hibernationsByPod.get(`${namespace}/${name}`);
    const hibernation = object && tryRead(() => readCocoonHibernation(object));
    if (hibernation) found.set(name, hibernation);
  }
  return found;
}

/** An object that cannot be read asks for nothing; its own controller says what is wrong with it. */
function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isFault(error, "invalid")) return undefined;
    throw error;
  }
}

function takenNames(
  parts: SetParts,
  set: CocoonSet,
  { members, machines }: Population,
): ReadonlyMap<string, string> {
  const { namespace } = keyOfSet(set);
  const present = new Set(machines.map(({ podName }) => podName));
  const taken = new Map<string, string>();
  for (const { podName, vmName } of [...allMembers(members), ...members.warm]) {
    if (present.has(podName)) continue;
    const pod = parts.pods.get({ namespace, name: podName });
    const twin = parts.podsByVmName.get(vmName).find((each) => !isControlledBy(each, set));
    if (pod) taken.set(podName, `pod ${podName} exists and does not belong to this set${leavingText(pod)}`);
    else if (twin)
      taken.set(podName, `machine ${vmName} is the one of pod ${keyText(keyOf(twin))}${leavingText(twin)}`);
  }
  return taken;
}

function leavingText({ metadata }: Pod): string {
  return metadata.deletionTimestamp === undefined ? "; delete it or rename the set" : "; it is being deleted";
}

function sourceTrouble({ grants: cache }: SetParts, set: CocoonSet): string {
  const { from } = set.spec.agent;
  const { namespace } = keyOfSet(set);
  if (!from?.namespace || from.namespace === namespace) return "";
  for (const object of cache.list()) {
    if (object.metadata.namespace !== from.namespace) continue;
    const grant = tryRead(() => readSnapshotGrant(object));
    if (grant && grants(grant, { namespace, set: from.set })) return "";
  }
  return `no CocoonSnapshotGrant of namespace ${from.namespace} lets sets of ${namespace} start from set ${from.set}`;
}

function nodeFacts(parts: SetParts, name: string): NodeFacts | undefined {
  const node = parts.nodes.get({ name });
  if (!node) return undefined;
  const { labels = {} } = node.metadata;
  return {
    ready: isConditionTrue(node.status?.conditions, "Ready"),
    schedulable: !node.spec?.unschedulable,
    pool: labels[nodeLabel.pool] ?? "",
    cpuClass: labels[nodeLabel.snapshotCpuClass] ?? "",
    lacks: (machine) => lackOf(parts, node, machine),
  };
}

const resources = ["cpu", "memory", "ephemeral-storage"] as const;

function lackOf(parts: SetParts, node: Node, machine: Machine): string {
  const others = parts.podsByNode.get(node.metadata.name ?? "").filter((pod) => !isOver(pod));
  const allowedPods = Number(node.status?.allocatable?.["pods"] ?? Infinity);
  if (others.length + 1 > allowedPods) return `the node is full: it takes ${allowedPods} pods`;
  for (const resource of resources) {
    const allocatable = tryParseQuantity(node.status?.allocatable?.[resource] ?? "");
    const needed = others.reduce(
      (sum, pod) => sum + requestOf(pod, resource),
      requestOf(machine.pod, resource),
    );
    if (allocatable && compareQuantities(amount(needed), allocatable) > 0)
      return `the node has not enough ${resource} left`;
  }
  return "";
}

function isOver({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

function requestOf({ spec }: Pod, resource: string): bigint {
  return (spec?.containers ?? []).reduce(
    (sum, { resources: wanted }) => sum + (tryParseQuantity(wanted?.requests?.[resource] ?? "")?.nanos ?? 0n),
    0n,
  );
}

function amount(nanos: bigint): Quantity {
  return { nanos, format: "decimal" };
}
