/** All machines: those with a pod, and those that sleep without one, which only their set remembers. */
import type { MachineRow, SetRow } from "../../../src/shared/rows.ts";
import { buildKey } from "./store.ts";

export function listMachines(
  pods: ReadonlyMap<string, MachineRow>,
  sets: ReadonlyMap<string, SetRow>,
): MachineRow[] {
  const rows = [...pods.values()];
  for (const set of sets.values())
    for (const member of set.members)
      if (member.podName !== "" && !pods.has(buildKey(set.namespace, member.podName)))
        rows.push(fromMember(set, member));
  return rows.sort(
    (left, right) => compareTexts(left.namespace, right.namespace) || collator.compare(left.name, right.name),
  );
}

const collator = new Intl.Collator(undefined, { numeric: true });

function compareTexts(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function fromMember(set: SetRow, member: SetRow["members"][number]): MachineRow {
  const { namespace, name, image, createdAt } = set;
  return {
    kind: "machine",
    namespace,
    name: member.podName,
    uid: "",
    set: name,
    role: member.role,
    state: member.state === "ready" ? "pending" : member.state,
    message: "",
    node: member.node,
    ip: "",
    cpu: "",
    memory: "",
    image,
    os: "",
    createdAt,
    vmName: member.vmName,
    forkedFrom: member.forkedFrom,
    snapshot: member.snapshot,
    idleSince: "",
    container: "",
    screen: false,
    generation: 0,
  };
}

export function filterRows<T>(rows: readonly T[], filter: string, read: (row: T) => string): readonly T[] {
  const words = filter
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = read(row).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
