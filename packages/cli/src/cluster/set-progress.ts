/** How far a set is, in one line, and what can never come true any more. Pure. */
import { findCondition, type AgentStatus } from "@cocoon/contract";
import { Fault } from "@cocoon/core/fault";
import { getName } from "./find.ts";
import type { SetObject } from "./kinds.ts";
import type { Look } from "./wait.ts";
import { commandName } from "../invocation.ts";

/** The operator has seen this generation of the spec. */
function isCurrent({ status, metadata }: SetObject, generation: number = metadata.generation ?? 0): boolean {
  return (status?.observedGeneration ?? 0) >= generation;
}

/**
 * What our operator adds to the status. A Go operator leaves these fields as they are, or drops them: then the condition that
 * only ours writes is missing or of an older generation, and nothing may wait for them.
 */
function readAdditions({ status }: SetObject): Pick<SetStatus, "subAgents" | "hibernatedMachines"> {
  return status && findOwnCondition(status, "Degraded") ? status : {};
}

function findOwnCondition(status: SetStatus | undefined, type: string): Condition | undefined {
  const condition = findCondition(status?.conditions, type);
  return (condition?.observedGeneration ?? 0) >= (status?.observedGeneration ?? 0) ? condition : undefined;
}

type SetStatus = NonNullable<SetObject["status"]>;
type Condition = NonNullable<SetStatus["conditions"]>[number];

export function setProgress(set: SetObject): string {
  const { status } = set;
  if (!status?.phase) return "the operator has not observed it yet";
  const ready = (status.readyAgents ?? 0) + (status.readyToolboxes ?? 0);
  const desired = (status.desiredAgents ?? 0) + (status.desiredToolboxes ?? 0);
  const { hibernatedMachines } = readAdditions(set);
  const asleep = hibernatedMachines ? `, ${hibernatedMachines} asleep` : "";
  const seen = isCurrent(set) ? "" : " (the change is not taken up yet)";
  const problem = degradation(set);
  return `${status.phase}, ${ready} of ${desired} machines ready${asleep}${seen}${problem ? `: ${problem.message || problem.reason}` : ""}`;
}

export function degradation({
  status,
}: SetObject): { readonly reason: string; readonly message: string } | undefined {
  const condition = findOwnCondition(status, "Degraded");
  return condition?.status === "True" ? condition : undefined;
}

/** A main agent that failed for good does not come up by waiting. */
function assertNotFailed(set: SetObject): void {
  if (set.status?.phase !== "Failed" || !isCurrent(set)) return;
  const why = degradation(set)?.message ?? "its main agent failed";
  throw new Fault(
    "internal",
    `set ${getName(set)} failed: ${why}; \`${commandName()} events ${getName(set)}\` shows more`,
  );
}

export interface LookOptions {
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
  const { desiredAgents = 0, desiredToolboxes = 0 } = set.status ?? {};
  const { hibernatedMachines = 0 } = readAdditions(set);
  const count = desiredAgents + desiredToolboxes;
  const rest = hibernatedMachines > 0 ? `, ${hibernatedMachines} of them asleep on request` : "";
  return `${getName(set)}: running, ${count} ${count === 1 ? "machine" : "machines"}${rest}`;
}

/** Hibernated by its schedule, not by `spec.suspend`. */
function assertNotScheduled(set: SetObject): void {
  const { status, spec } = set;
  const sleeps = status?.phase === "Suspended" || status?.phase === "Suspending";
  if (!sleeps || spec?.suspend || !spec?.schedule?.length) return;
  throw new Fault(
    "conflict",
    `set ${getName(set)} sleeps by its schedule (spec.schedule) until the next entry with action Wake; change or remove the schedule to wake it now`,
  );
}

export function lookSuspended(set: SetObject, { generation }: LookOptions): Look {
  if (isCurrent(set, generation) && set.status?.phase === "Suspended") {
    const { hibernatedMachines: count } = readAdditions(set);
    const machines =
      count === undefined ? "" : `, ${count} ${count === 1 ? "machine sleeps" : "machines sleep"}`;
    return { kind: "done", text: `${getName(set)}: suspended${machines}` };
  }
  return { kind: "waiting", text: setProgress(set) };
}

/** Running, or asleep when the spec suspends it. */
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
    return { kind: "done", text: `${getName(set)}: suspended; its main agent wakes on ${node}` };
  if (set.status?.phase === "Running" && main && isReadyOn(main, node))
    return { kind: "done", text: `${main.podName ?? getName(set)}: runs on ${node}` };
  return { kind: "waiting", text: `${setProgress(set)}, main agent on ${main?.nodeName ?? "no node"}` };
}

/** A Go operator writes neither field; its phase is Migrating until the machine runs there. */
function isReadyOn({ nodeName = "", ready = true }: AgentStatus, node: string): boolean {
  return ready && (nodeName === "" || nodeName === node);
}

function assertNotRefused(set: SetObject): void {
  const problem = degradation(set);
  if (!problem || !refusals.has(problem.reason)) return;
  throw new Fault(
    "conflict",
    `${problem.message}; name another node, or remove the pin with: ${commandName()} migrate ${getName(set)} --unpin`,
  );
}

export function lookScaled(set: SetObject, options: LookOptions & { readonly replicas: number }): Look {
  const { generation, replicas } = options;
  const { status } = set;
  if (isCurrent(set, generation) && status?.phase === "Suspended")
    return { kind: "done", text: `${getName(set)}: suspended; it wakes with ${replicas} sub-agents` };
  const look = lookRunning(set, options);
  const fits =
    status?.desiredAgents === replicas + 1 && (readAdditions(set).subAgents ?? replicas) === replicas;
  return look.kind === "done" && !fits ? { kind: "waiting", text: setProgress(set) } : look;
}

/** Running, and nothing left that does not match the spec. */
export function lookRestored(set: SetObject, options: LookOptions): Look {
  const look = lookRunning(set, options);
  const upToDate = findOwnCondition(set.status, "UpToDate");
  if (look.kind === "done" && upToDate?.status === "False")
    return { kind: "waiting", text: `${setProgress(set)}, ${upToDate.message || "not replaced yet"}` };
  return look;
}
