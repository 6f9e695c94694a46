/**
 * Names of pods and machines. They are plain concatenation, never cut, hashed or escaped:
 *
 *   role              pod            machine
 *   main              <set>-0        vk-<namespace>-<set>-0
 *   sub-agent n >= 1  <set>-<n>      vk-<namespace>-<set>-<n>
 *   toolbox t         <set>-<t>      vk-<namespace>-<set>-<t>
 *   Deployment slot   (generated)    vk-<namespace>-<deployment>-<slot>
 *   any other pod     <pod>          vk-<namespace>-<pod>
 *
 * The machine's name is also its registry repository and its name on the host. Because nothing is escaped, two owners
 * can claim one name; `name-claims.ts` finds that.
 */
const roles = ["main", "sub-agent", "toolbox"] as const;
export type Role = (typeof roles)[number];

/** Slots are int32 on the wire. */
export const maxSlot = 2 ** 31 - 1;

export interface SetKey {
  readonly namespace: string;
  readonly set: string;
}

/** The name part of a pod and a machine after the set: a slot number, or the name of a toolbox. */
export type Member = number | string;

export function podName(set: string, member: Member): string {
  return `${set}-${member}`;
}

export function vmName({ namespace, set }: SetKey, member: Member): string {
  return `vk-${namespace}-${set}-${member}`;
}

/** The machine of a pod that belongs to no set. */
export function podVmName(namespace: string, pod: string): string {
  return `vk-${namespace}-${pod}`;
}

/** A slot number as names and labels carry it: digits only, no sign, no leading zero. */
export function tryParseSlot(text: string): number | undefined {
  if (!/^(?:0|[1-9]\d{0,9})$/.test(text)) return undefined;
  const slot = Number(text);
  return slot <= maxSlot ? slot : undefined;
}

/** The slot of a machine of this set; undefined for toolboxes and for machines of other owners. */
export function findSlot(key: SetKey, vm: string): number | undefined {
  const prefix = vmName(key, "");
  return vm.startsWith(prefix) ? tryParseSlot(vm.slice(prefix.length)) : undefined;
}

export function getSlotRole(slot: number | undefined): Role {
  if (slot === undefined) return "toolbox";
  return slot === 0 ? "main" : "sub-agent";
}

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}
