/**
 * Whether each machine of a set is to sleep, and why. The set's controller is the only writer of the key on its pods;
 * a CocoonHibernation requests, and is answered here.
 *
 *   first match                                        desired state
 *   the set is suspended (spec, schedule, expiry)      sleep (suspend)
 *   the machine is being moved and is still there      sleep (migration)
 *   a CocoonHibernation wants sleep                    sleep (hibernation)
 *   a CocoonHibernation waits for a wake               awake
 *   it sleeps for a hibernation, idleness, by hand     as it is
 *   it sleeps for a suspension or a move that is over  awake
 *   it has been idle for long enough                   sleep (idle)
 *   otherwise                                          as it is
 */
import { annotation, legacyAnnotation } from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import { parseCron } from "../cron.ts";
import type { HibernateReason } from "@cocoon/machine";
import type { Machine } from "../pod-machine.ts";
import { isBridged, readHibernationRequest } from "../hibernation-request.ts";
import type { Draft, Texts } from "./draft.ts";
import type { ObservedSet } from "./observed-set.ts";

type DesiredPower =
  | { readonly kind: "sleep"; readonly reason: HibernateReason }
  | { readonly kind: "awake" }
  | { readonly kind: "leave" };

export interface Schedule {
  readonly asleep: boolean;
  /** Until the next entry fires. */
  readonly nextMs: number | undefined;
}

/** The latest entry that fired decides; later in the list wins when two fire together. */
export function readSchedule({ set, now }: Pick<ObservedSet, "set" | "now">): Schedule {
  let latest: { readonly at: number; readonly asleep: boolean } | undefined;
  let nextMs: number | undefined;
  for (const { cron: text, timeZone, action } of set.spec.schedule ?? []) {
    const cron = parseCron(text, timeZone);
    const fired = cron.previous(now)?.getTime();
    if (fired !== undefined && fired >= (latest?.at ?? -Infinity))
      latest = { at: fired, asleep: action === "Hibernate" };
    const next = cron.next(now)?.getTime();
    if (next !== undefined) nextMs = Math.min(nextMs ?? Infinity, next - now.getTime());
  }
  // An entry that fired before the set existed says nothing about it.
  const born = Date.parse(set.metadata.creationTimestamp ?? "");
  const asleep = latest !== undefined && latest.asleep && !(latest.at < born);
  return { asleep, nextMs };
}

export interface Expiry {
  readonly expired: boolean;
  /** Until then; absent without a time. */
  readonly leftMs?: number;
}

/** `spec.expire`. A time that cannot be read never comes. */
export function readExpiry({ set, now }: Pick<ObservedSet, "set" | "now">): Expiry {
  const at = Date.parse(set.spec.expire?.at ?? "");
  if (Number.isNaN(at)) return { expired: false };
  const leftMs = at - now.getTime();
  return { expired: leftMs <= 0, leftMs };
}

export interface PowerContext {
  readonly suspended: boolean;
  /** The main agent is to leave the node it is on. */
  readonly leaving: boolean;
}

function computeDesiredPower(machine: Machine, observed: ObservedSet, context: PowerContext): DesiredPower {
  if (!machine.vm.managed) return { kind: "leave" };
  if (context.suspended) return { kind: "sleep", reason: "suspend" };
  if (context.leaving && machine.role === "main") return { kind: "sleep", reason: "migration" };
  const hibernation = observed.hibernations.get(machine.podName);
  const request = hibernation ? readHibernationRequest(hibernation) : "none";
  if (request === "sleep") return { kind: "sleep", reason: "hibernation" };
  if (request === "wake") return { kind: "awake" };
  if (machine.hibernate) return endsNow(machine, observed) ? { kind: "awake" } : { kind: "leave" };
  return isIdle(machine, observed) ? { kind: "sleep", reason: "idle" } : { kind: "leave" };
}

const suspensions: ReadonlySet<string> = new Set(["Suspending", "Suspended", "Migrating"]);

/** A key without reason is a person's, unless the set was suspended by an operator that wrote no reasons. */
function endsNow({ hibernateReason, pod }: Machine, { set }: ObservedSet): boolean {
  if (hibernateReason === "suspend" || hibernateReason === "migration") return true;
  const unexplained =
    hibernateReason === "" && pod.metadata.annotations?.[legacyAnnotation.hibernate] !== "true";
  return unexplained && suspensions.has(set.status?.phase ?? "");
}

function idleLeftMs({ idleSince }: Machine, { set, now }: ObservedSet): number | undefined {
  const { idle } = set.spec;
  if (!idle || !idleSince) return undefined;
  return idleSince.getTime() + parseDuration(idle.after) - now.getTime();
}

function isIdle(machine: Machine, observed: ObservedSet): boolean {
  const leftMs = machine.awake && machine.ready ? idleLeftMs(machine, observed) : undefined;
  return leftMs !== undefined && leftMs <= 0;
}

/** The annotations that bring a pod to the desired state; undefined when they are there. Already asleep keeps its reason. */
function computeKeyChanges(machine: Machine, desired: DesiredPower, draft: Draft): Texts | undefined {
  if (desired.kind === "leave") return undefined;
  const stamp = { [annotation.generation]: String(draft.generation) };
  if (desired.kind === "awake") {
    if (!machine.hibernate) return undefined;
    return {
      [annotation.hibernate]: null,
      [legacyAnnotation.hibernate]: null,
      [annotation.hibernateReason]: null,
      ...stamp,
    };
  }
  if (machine.hibernate && !takesOver(machine.hibernateReason, desired.reason)) return undefined;
  const { legacyKeys, hibernations } = draft.observed;
  const hibernation = hibernations.get(machine.podName);
  const bridged = legacyKeys || (hibernation !== undefined && isBridged(hibernation));
  const older = bridged ? { [legacyAnnotation.hibernate]: "true" } : {};
  return {
    [annotation.hibernate]: "true",
    ...older,
    [annotation.hibernateReason]: desired.reason,
    ...(machine.hibernate ? {} : stamp),
  };
}

/** A hibernation outlives the suspension that came first; nothing takes a machine's sleep over from a hibernation. */
function takesOver(current: HibernateReason | "", wanted: HibernateReason): boolean {
  return wanted === "hibernation" && current !== "hibernation";
}

/** Steps for every machine whose key does not say what is wanted. */
export function planHibernateKeys(draft: Draft, machines: readonly Machine[], context: PowerContext): void {
  for (const machine of machines) {
    const leftMs = machine.hibernate ? undefined : idleLeftMs(machine, draft.observed);
    if (leftMs !== undefined && leftMs > 0) draft.requeueAfter(leftMs);
    const desired = computeDesiredPower(machine, draft.observed, context);
    const changes = computeKeyChanges(machine, desired, draft);
    if (!changes) continue;
    const { vmName } = machine.vm;
    if (desired.kind === "awake" && (draft.digests.has(vmName) || draft.isKnownAsleep(vmName)))
      draft.wakes(vmName);
    const isHibernation = desired.kind === "sleep" && desired.reason === "hibernation";
    const requestedBy = isHibernation ? draft.observed.hibernations.get(machine.podName) : undefined;
    draft.do({ kind: "changePod", machine, annotations: changes, ...(requestedBy ? { requestedBy } : {}) });
  }
}
