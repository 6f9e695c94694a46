/** Ids and names of VMs and snapshots, and how a reference finds one of them. */
import { randomBytes } from "node:crypto";
import { Fault } from "@cocoon/core";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const idLength = 26;
const shortestPrefix = 3;

export const idPattern = /^[A-Z2-7]{26}$/;

/** 26 random characters: 130 bits, so that ids need no check for collisions. */
export function newId(): string {
  return Array.from(randomBytes(idLength), (byte) => alphabet[byte % alphabet.length]).join("");
}

const vmNamePattern = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/;
const snapshotNamePattern = /^[a-zA-Z0-9][a-zA-Z0-9._:/-]{0,62}$/;

export function assertVmName(name: string): void {
  if (vmNamePattern.test(name)) return;
  throw new Fault(
    "invalid",
    `name ${JSON.stringify(name)} is not a VM name: up to 63 letters, digits, ".", "_" and "-", the first a letter or digit`,
  );
}

export function assertSnapshotName(name: string): void {
  if (snapshotNamePattern.test(name)) return;
  throw new Fault(
    "invalid",
    `name ${JSON.stringify(name)} is not a snapshot name: up to 63 letters, digits, ".", "_", ":", "/" and "-", the first a letter or digit`,
  );
}

interface Named {
  readonly id: string;
  readonly name: string;
}

/** Exact id, exact name, or a unique prefix of an id. Ids win over names, names over prefixes. */
export function findByRef<T extends Named>(
  ref: string,
  all: readonly T[],
  notFound: (ref: string) => Fault,
): T {
  const exact =
    all.find((each) => each.id === ref) ?? all.find((each) => each.name !== "" && each.name === ref);
  if (exact) return exact;
  const matches = ref.length >= shortestPrefix ? all.filter((each) => each.id.startsWith(ref)) : [];
  if (matches.length > 1) throw new Fault("conflict", `ambiguous ref "${ref}": multiple matches`);
  const [match] = matches;
  if (!match) throw notFound(ref);
  return match;
}

export function vmNotFound(ref: string): Fault {
  return new Fault("notFound", `vm ${ref}: VM not found`);
}

export function snapshotNotFound(_ref: string): Fault {
  return new Fault("notFound", "snapshot not found");
}
