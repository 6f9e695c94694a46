/** Reads everything about one set, from caches only; earlier lookups in the registry are handed in. */
import {
  grants,
  nodeLabel,
  readCocoonHibernation,
  readSnapshotGrant,
  type CocoonHibernation,
  type CocoonSet,
} from "@cocoon/contract";
import { ignoreFault } from "@cocoon/core";
import { isConditionTrue } from "@cocoon/core/conditions";
import { getKey, keyText, type Node, type Pod } from "@cocoon/kube";
import { isControlledBy } from "@cocoon/kube/controller";
import {
  addAmounts,
  computeRequests,
  findLoadMisfit,
  readNodeSupply,
  type Amounts,
} from "@cocoon/kube/scheduling";
import { isBridged } from "../hibernation-request.ts";
import { readMachine, type Machine } from "../pod-machine.ts";
import type { TagLookups } from "./tag-lookups.ts";
import { allMembers, getSetKey, computeMembers, type Members } from "./members.ts";
import { findHolder } from "./holders.ts";
import { isClaimedElsewhere } from "./name-owners.ts";
import type { SetParts } from "./parts.ts";
import { retentionPeriodMs, type NodeFacts, type ObservedSet } from "./observed-set.ts";

export function observeSet(parts: SetParts, set: CocoonSet, lookups: TagLookups): ObservedSet {
  const owned = parts.pods.merge(parts.podsByOwner.get(set.metadata.uid ?? ""), (pod) =>
    isControlledBy(pod, set),
  );
  const machines = owned.map(readMachine).sort((left, right) => (left.podName < right.podName ? -1 : 1));
  const members = computeMembers(set);
  return {
    set,
    members,
    machines,
    hibernations: findHibernations(parts, set, { members, machines }),
    taken: takenNames(parts, set, { members, machines }),
    isClaimedElsewhere: (vmName) => isClaimedElsewhere(parts, set, vmName),
    node: (name) => nodeFacts(parts, name),
    findHolder: (vmName) => findHolder(parts, vmName),
    tags: lookups.forMachines(machines),
    sourceProblem: sourceProblem(parts, set),
    retentionDue: retentionIsDue(parts, set),
    legacyKeys: isBridged(set),
    now: parts.now(),
  };
}

function retentionIsDue({ expiredAt, now }: SetParts, { metadata }: CocoonSet): boolean {
  return now().getTime() - (expiredAt.get(metadata.uid ?? "") ?? 0) >= retentionPeriodMs;
}

interface Population {
  readonly members: Members;
  readonly machines: readonly Machine[];
}

function findHibernations(
  parts: SetParts,
  set: CocoonSet,
  { members, machines }: Population,
): ReadonlyMap<string, CocoonHibernation> {
  const { namespace } = getSetKey(set);
  const names = new Set([...allMembers(members), ...machines].map(({ podName }) => podName));
  const found = new Map<string, CocoonHibernation>();
  for (const name of names) {
    const [object] = parts.hibernationsByPod.get(`${namespace}/${name}`);
    // One that cannot be read requests nothing; its own controller reports it.
    const hibernation = object && ignoreFault("invalid", () => readCocoonHibernation(object));
    if (hibernation) found.set(name, hibernation);
  }
  return found;
}

function takenNames(
  parts: SetParts,
  set: CocoonSet,
  { members, machines }: Population,
): ReadonlyMap<string, string> {
  const { namespace } = getSetKey(set);
  const present = new Set(machines.map(({ podName }) => podName));
  const taken = new Map<string, string>();
  for (const { podName, vmName } of [...allMembers(members), ...members.warm]) {
    if (present.has(podName)) continue;
    const pod = parts.pods.get({ namespace, name: podName });
    const twin = parts.podsByVmName.get(vmName).find((each) => !isControlledBy(each, set));
    if (pod)
      taken.set(podName, `pod ${podName} exists and does not belong to this set${terminatingText(pod)}`);
    else if (twin)
      taken.set(
        podName,
        `machine ${vmName} is the one of pod ${keyText(getKey(twin))}${terminatingText(twin)}`,
      );
  }
  return taken;
}

function terminatingText({ metadata }: Pod): string {
  return metadata.deletionTimestamp === undefined ? "; delete it or rename the set" : "; it is being deleted";
}

function sourceProblem({ grants: cache }: SetParts, set: CocoonSet): string {
  const { from } = set.spec.agent;
  const { namespace } = getSetKey(set);
  if (!from?.namespace || from.namespace === namespace) return "";
  for (const object of cache.list()) {
    if (object.metadata.namespace !== from.namespace) continue;
    const grant = ignoreFault("invalid", () => readSnapshotGrant(object));
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
    lacks: (machine) => findMissingResource(parts, node, machine),
  };
}

function findMissingResource(parts: SetParts, node: Node, { pod }: Machine): string {
  const others = parts.podsByNode
    .get(node.metadata.name ?? "")
    .filter((each) => !isOver(each) && each.metadata.uid !== pod.metadata.uid);
  const amounts = others.reduce<Amounts>((sum, each) => addAmounts(sum, readRequests(each)), {});
  const { allocatable } = readNodeSupply(node);
  // A node that has not reported yet: not known is not too little.
  if (Object.keys(allocatable).length === 0) return "";
  const load = { pods: others.length, amounts };
  const misfit = findLoadMisfit(allocatable, { requests: readRequests(pod), hostPorts: [] }, load);
  if (misfit?.kind !== "resource") return "";
  if (misfit.resource === "pods") return `the node is full: it takes ${misfit.capacity} pods`;
  return `the node has not enough ${misfit.resource} left`;
}

function readRequests({ spec }: Pod): Amounts {
  return spec ? computeRequests(spec) : {};
}

function isOver({ status }: Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
