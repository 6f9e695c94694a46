/** How far a set is, in one line, and what can never come true any more. Pure. */
import { findCondition } from "@cocoon/contract";
import { Fault } from "@cocoon/core/fault";
import type { SetObject } from "./kinds.ts";
import type { Look } from "./wait.ts";
import { commandName } from "../invocation.ts";

/** The operator has seen this generation of the spec. */
function isCurrent({ status, metadata }: SetObject, generation: number = metadata.generation ?? 0): boolean {
  return (status?.observedGeneration ?? 0) >= generation;
}

export function setProgress(set: SetObject): string {
  const { status } = set;
  if (!status?.phase) return "the operator has not looked at it yet";
  const ready = (status.readyAgents ?? 0) + (status.readyToolboxes ?? 0);
  const desired = (status.desiredAgents ?? 0) + (status.desiredToolboxes ?? 0);
  const asleep = status.hibernatedMachines ? `, ${status.hibernatedMachines} asleep` : "";
  const seen = isCurrent(set) ? "" : " (the change is not taken up yet)";
  const trouble = degradation(set);
  return `${status.phase}, ${ready} of ${desired} machines ready${asleep}${seen}${trouble ? `: ${trouble.message || trouble.reason}` : ""}`;
}

export function degradation({
  status,
}: SetObject): { readonly reason: string; readonly message: string } | undefined {
  const condition = findCondition(status?.conditions, "Degraded");
  return condition?.status === "True" ? condition : undefined;
}

function nameOf({ metadata }: SetObject): string {
  return metadata.name ?? "";
}

/** A main agent that failed for good does not come up by waiting. */
function assertNotFailed(set: SetObject): void {
  if (set.status?.phase !== "Failed" || !isCurrent(set)) return;
  const why = degradation(set)?.message ?? "its main agent failed";
  throw new Fault(
    "internal",
    `set ${nameOf(set)} failed: ${why}; \`${commandName()} events ${nameOf(set)}\` tells more`,
  );
}

export interface LookOptions {
  /** Of the spec that was written. */
  readonly generation: number;
}

export function lookRunning(set: SetObject, { generation }: LookOptions): Look {
  if (!isCurrent(set, generation)) return { kind: "waiting", text: setProgress(set) };
  assertNotFailed(set);
  assertNotScheduled(set);
  return set.status?.phase === "Running"
    ? { kind: "done", text: runningText(set) }
    : { kind: "waiting", text: setProgress(set) };
}

function runningText(set: SetObject): string {
  const { desiredAgents = 0, desiredToolboxes = 0, hibernatedMachines = 0 } = set.status ?? {};
  const count = desiredAgents + desiredToolboxes;
  const rest = hibernatedMachines > 0 ? `, ${hibernatedMachines} of them asleep on request` : "";
  return `${nameOf(set)}: running, ${count} ${count === 1 ? "machine" : "machines"}${rest}`;
}

/** Sleeping although nobody says so in `suspend`. */
function assertNotScheduled(set: SetObject): void {
  const { status, spec } = set;
  const sleeps = status?.phase === "Suspended" || status?.phase === "Suspending";
  if (!sleeps || spec?.suspend || !spec?.schedule?.length) return;
  throw new Fault(
    "conflict",
    `set ${nameOf(set)} sleeps by its schedule (spec.schedule) until the next entry with action Wake; change or remove the schedule to wake it now`,
  );
}

export function lookSuspended(set: SetObject, { generation }: LookOptions): Look {
  if (isCurrent(set, generation) && set.status?.phase === "Suspended") {
    const count = set.status.hibernatedMachines ?? 0;
    return {
      kind: "done",
      text: `${nameOf(set)}: suspended, ${count} ${count === 1 ? "machine sleeps" : "machines sleep"}`,
    };
  }
  return { kind: "waiting", text: setProgress(set) };
}

/** Running, or asleep when that is what the spec says. */
export function lookAtRest(set: SetObject, options: LookOptions): Look {
  return set.spec?.suspend ? lookSuspended(set, options) : lookRunning(set, options);
}

const refusals: ReadonlySet<string> = new Set(["MigrationRefused", "MigrationReturned"]);

export function lookMoved(set: SetObject, options: LookOptions & { readonly node: string }): Look {
  const { generation, node } = options;
  if (!isCurrent(set, generation)) return { kind: "waiting", text: setProgress(set) };
  assertNotRefused(set);
  const main = set.status?.agents?.find(({ slot }) => slot === 0);
  if (set.status?.phase === "Suspended")
    return { kind: "done", text: `${nameOf(set)}: suspended; its main agent wakes on ${node}` };
  if (main?.nodeName === node && main.ready && set.status?.phase === "Running")
    return { kind: "done", text: `${main.podName ?? nameOf(set)}: runs on ${node}` };
  return { kind: "waiting", text: `${setProgress(set)}, main agent on ${main?.nodeName ?? "no node"}` };
}

function assertNotRefused(set: SetObject): void {
  const trouble = degradation(set);
  if (!trouble || !refusals.has(trouble.reason)) return;
  throw new Fault(
    "conflict",
    `${trouble.message}; name another node, or remove the wish with: ${commandName()} migrate ${nameOf(set)} --unpin`,
  );
}

export function lookScaled(set: SetObject, options: LookOptions & { readonly replicas: number }): Look {
  const { generation, replicas } = options;
  const { status } = set;
  if (isCurrent(set, generation) && status?.phase === "Suspended")
    return { kind: "done", text: `${nameOf(set)}: suspended; it wakes with ${replicas} sub-agents` };
  const look = lookRunning(set, options);
  const fits = status?.desiredAgents === replicas + 1 && status.subAgents === replicas;
  return look.kind === "done" && !fits ? { kind: "waiting", text: setProgress(set) } : look;
}

/** Running, and nothing left that does not match the spec. */
export function lookRestored(set: SetObject, options: LookOptions): Look {
  const look = lookRunning(set, options);
  const upToDate = findCondition(set.status?.conditions, "UpToDate");
  if (look.kind === "done" && upToDate?.status === "False")
    return { kind: "waiting", text: `${setProgress(set)}, ${upToDate.message || "not replaced yet"}` };
  return look;
}
