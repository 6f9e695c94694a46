/**
 * Whether each machine of a set is to sleep, and why. The set's controller is the only writer of the key on its pods;
 * a CocoonHibernation asks, and is answered here.
 *
 *   first match                                        wish
 *   the set is suspended (spec or schedule)            sleep (suspend)
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
import type { Machine, SleepReason } from "../machine.ts";
import { demandOf } from "../wakes.ts";
import type { Draft, Texts } from "./draft.ts";
import type { World } from "./world.ts";

type Wish =
  | { readonly kind: "sleep"; readonly reason: SleepReason }
  | { readonly kind: "awake" }
  | { readonly kind: "leave" };

export interface Schedule {
  readonly asleep: boolean;
  /** Until the next entry fires. */
  readonly nextMs: number | undefined;
}

/** The latest entry that fired decides; later in the list wins when two fire together. */
export function readSchedule({ set, now }: Pick<World, "set" | "now">): Schedule {
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

export interface WishContext {
  readonly suspended: boolean;
  /** The main agent is to leave the node it is on. */
  readonly leaving: boolean;
}

function wishOf(machine: Machine, world: World, context: WishContext): Wish {
  if (!machine.vm.managed) return { kind: "leave" };
  if (context.suspended) return { kind: "sleep", reason: "suspend" };
  if (context.leaving && machine.role === "main") return { kind: "sleep", reason: "migration" };
  const hibernation = world.hibernations.get(machine.podName);
  const demand = hibernation ? demandOf(hibernation) : "none";
  if (demand === "sleep") return { kind: "sleep", reason: "hibernation" };
  if (demand === "wake") return { kind: "awake" };
  if (machine.sleepKey) return endsNow(machine, world) ? { kind: "awake" } : { kind: "leave" };
  return isIdle(machine, world) ? { kind: "sleep", reason: "idle" } : { kind: "leave" };
}

const suspensions: ReadonlySet<string> = new Set(["Suspending", "Suspended", "Migrating"]);

/** A key without reason is a person's, unless the set was suspended by an operator that wrote no reasons. */
function endsNow({ sleepReason, pod }: Machine, { set }: World): boolean {
  if (sleepReason === "suspend" || sleepReason === "migration") return true;
  const unexplained = sleepReason === "" && pod.metadata.annotations?.[legacyAnnotation.hibernate] !== "true";
  return unexplained && suspensions.has(set.status?.phase ?? "");
}

function idleLeftMs({ idleSince }: Machine, { set, now }: World): number | undefined {
  const { idle } = set.spec;
  if (!idle || !idleSince) return undefined;
  return idleSince.getTime() + parseDuration(idle.after) - now.getTime();
}

function isIdle(machine: Machine, world: World): boolean {
  const leftMs = machine.awake && machine.ready ? idleLeftMs(machine, world) : undefined;
  return leftMs !== undefined && leftMs <= 0;
}

/** The annotations that bring a pod to the wish; undefined when they are there. Already asleep keeps its reason. */
function sleepChanges(machine: Machine, wish: Wish, draft: Draft): Texts | undefined {
  if (wish.kind === "leave") return undefined;
  const stamp = { [annotation.generation]: String(draft.generation) };
  if (wish.kind === "awake") {
    if (!machine.sleepKey) return undefined;
    return {
      [annotation.hibernate]: null,
      [legacyAnnotation.hibernate]: null,
      [annotation.hibernateReason]: null,
      ...stamp,
    };
  }
  if (machine.sleepKey && !takesOver(machine.sleepReason, wish.reason)) return undefined;
  const older = draft.world.legacyKeys ? { [legacyAnnotation.hibernate]: "true" } : {};
  return {
    [annotation.hibernate]: "true",
    ...older,
    [annotation.hibernateReason]: wish.reason,
    ...(machine.sleepKey ? {} : stamp),
  };
}

/** A hibernation outlives the suspension that came first; nothing takes a machine's sleep over from a hibernation. */
function takesOver(current: SleepReason | "", wanted: SleepReason): boolean {
  return wanted === "hibernation" && current !== "hibernation";
}

/** Steps for every machine whose key does not say what is wanted. */
export function planSleepKeys(draft: Draft, machines: readonly Machine[], context: WishContext): void {
  for (const machine of machines) {
    const leftMs = machine.sleepKey ? undefined : idleLeftMs(machine, draft.world);
    if (leftMs !== undefined && leftMs > 0) draft.lookAgain(leftMs);
    const wish = wishOf(machine, draft.world, context);
    const changes = sleepChanges(machine, wish, draft);
    if (!changes) continue;
    const { vmName } = machine.vm;
    if (wish.kind === "awake" && (draft.digests.has(vmName) || draft.isKnownAsleep(vmName)))
      draft.wakes(vmName);
    draft.do({ kind: "changePod", machine, annotations: changes });
  }
}
