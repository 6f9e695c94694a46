/** `--wake`: a machine that sleeps is woken first, alone or with its suspended set. What is said about it goes to standard error. */
import { readMachineState } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { findMachine, getName, listAll } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import type { ClusterOptions, Session } from "../cluster/session.ts";
import { wake } from "../commands/hibernate.ts";
import { resume } from "../commands/suspend.ts";

export const wakeOption = { "--wake": "wake the machine first when it sleeps" } as const;

export interface WakeFlag extends ClusterOptions {
  readonly wake?: boolean;
}

const waiting = { timeout: "10m", wait: true, results: "stderr" } as const;

export async function ensureAwake(session: Session, name: string, options: ClusterOptions): Promise<void> {
  const set = await findSuspendedSet(session, name);
  if (set) await resume([getName(set)], { ...options, ...waiting });
  const pod = await findMachine(session, name, { mainOfSet: true });
  const { state } = readMachineState(pod);
  if (state === "asleep" || state === "hibernating") await wake([getName(pod)], { ...options, ...waiting });
}

/** A suspended set may have no pods: its machines are then known by their names alone. */
async function findSuspendedSet(session: Session, name: string): Promise<SetObject | undefined> {
  const owner = await findSetName(session, name);
  const sets = await listAll(session, cocoonSets, { namespace: session.namespace });
  const suspended = sets.filter(({ spec }) => spec?.suspend === true);
  return (
    suspended.find((set) => getName(set) === name || getName(set) === owner) ??
    (owner === undefined ? suspended.find((set) => name.startsWith(`${getName(set)}-`)) : undefined)
  );
}

/** Undefined when there is no pod of that name. */
async function findSetName(session: Session, name: string): Promise<string | undefined> {
  try {
    const { metadata } = await findMachine(session, name, { mainOfSet: true });
    return metadata.ownerReferences?.find(({ kind }) => kind === "CocoonSet")?.name ?? "";
  } catch (error) {
    if (isFault(error, "notFound") || isFault(error, "unavailable")) return undefined;
    throw error;
  }
}
