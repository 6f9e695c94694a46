/**
 * Claims of machine names, and which collide. Two machines of one name would share a disk, a repository and an address: namespace
 * `a-b` with set `c` and namespace `a` with set `b-c` both mean `vk-a-b-c-0`; set `demo` with toolbox `x-0` means set `demo-x`.
 */
import { isDnsLabel, maxDnsLabelLength } from "./rfc1123.ts";
import { tryParseSlot, vmName } from "./vm-name.ts";

/** The runtime takes machine names of `[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}`. */
const maxVmNameLength = 63;

/** An owner of machines: its slots are claimed for ever, because it can be scaled up at any time. */
export interface NameClaim {
  readonly owner: string;
  /** All slots below this prefix (`vk-lab-atlas-`). */
  readonly slotPrefix?: string;
  readonly names: readonly string[];
}

export interface SetNames {
  readonly namespace: string;
  readonly name: string;
  readonly replicas?: number;
  readonly toolboxes?: readonly string[];
}

export function buildSetClaim({ namespace, name, toolboxes = [] }: SetNames): NameClaim {
  const key = { namespace, set: name };
  return {
    owner: `CocoonSet ${namespace}/${name}`,
    slotPrefix: vmName(key, ""),
    names: toolboxes.map((toolbox) => vmName(key, toolbox)),
  };
}

/** What a collision is called in a refusal; undefined when the two can live side by side. */
export function findCollision(claim: NameClaim, other: NameClaim): string | undefined {
  if (claim.slotPrefix !== undefined && claim.slotPrefix === other.slotPrefix)
    return clash(claim, other, `${claim.slotPrefix}0`);
  const shared =
    claim.names.find((name) => other.names.includes(name)) ??
    claim.names.find((name) => isSlotBelow(other, name)) ??
    other.names.find((name) => isSlotBelow(claim, name));
  return shared === undefined ? undefined : clash(claim, other, shared);
}

/** All collisions of one owner with the others; an owner does not collide with its own earlier self. */
export function listCollisions(claim: NameClaim, others: Iterable<NameClaim>): readonly string[] {
  const found: string[] = [];
  for (const other of others) {
    if (other.owner === claim.owner) continue;
    const collision = findCollision(claim, other);
    if (collision !== undefined) found.push(collision);
  }
  return found;
}

function isSlotBelow({ slotPrefix }: NameClaim, name: string): boolean {
  return (
    slotPrefix !== undefined &&
    name.startsWith(slotPrefix) &&
    tryParseSlot(name.slice(slotPrefix.length)) !== undefined
  );
}

function clash(claim: NameClaim, other: NameClaim, name: string): string {
  return `machine name "${name}" would belong to both ${claim.owner} and ${other.owner}; rename one of them`;
}

/** What is wrong with the names a set would produce, on its own: too long, or not usable as label or machine name. */
export function findNameProblems({
  namespace,
  name,
  replicas = 0,
  toolboxes = [],
}: SetNames): readonly string[] {
  const problems: string[] = [];
  if (name.length > maxDnsLabelLength)
    problems.push(
      `metadata.name must be no more than ${maxDnsLabelLength} characters because it becomes a label of the pods, has ${name.length}`,
    );
  const key = { namespace, set: name };
  const longestSlot = findLengthProblem(`spec.agent.replicas ${replicas}`, vmName(key, replicas));
  if (longestSlot) problems.push(longestSlot);
  for (const [index, toolbox] of toolboxes.entries()) {
    const field = `spec.toolboxes[${index}].name`;
    if (!isDnsLabel(toolbox)) problems.push(`${field} "${toolbox}" is not an RFC 1123 label`);
    else if (tryParseSlot(toolbox) !== undefined)
      problems.push(`${field} "${toolbox}" must not be purely numeric (conflicts with agent slot naming)`);
    const tooLong = findLengthProblem(`${field} "${toolbox}"`, vmName(key, toolbox));
    if (tooLong) problems.push(tooLong);
  }
  return problems;
}

/** The same for a machine name that something else produced. */
export function findVmNameProblem(name: string): string | undefined {
  if (!/^[a-zA-Z0-9][a-zA-Z0-9._-]*$/.test(name))
    return `machine name "${name}" may hold only letters, digits, '.', '_' and '-'`;
  return findLengthProblem("this owner", name);
}

function findLengthProblem(what: string, name: string): string | undefined {
  if (name.length <= maxVmNameLength) return undefined;
  return `${what} makes the machine name "${name}" ${name.length} characters long; the limit is ${maxVmNameLength}, shorten the namespace or the name`;
}
