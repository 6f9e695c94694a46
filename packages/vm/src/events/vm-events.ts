/** What happened to a VM, from what it observed like before and looks like now. Pure. */
import { liveStates } from "../state.ts";
import type { VmEvent } from "../runtime.ts";
import type { Vm } from "../vm.ts";

/** The events that lead from one picture of a VM to the next, in order. */
export function eventsBetween(before: Vm | undefined, now: Vm | undefined): readonly VmEvent[] {
  if (!now) return before ? [{ kind: "removed", vm: before }] : [];
  if (!before)
    return [{ kind: "added", vm: now }, ...stateEvents(undefined, now), ...guestEvents(undefined, now)];
  const events = [...stateEvents(before, now), ...guestEvents(before, now)];
  if (events.length > 0) return events;
  return JSON.stringify(before) === JSON.stringify(now) ? [] : [{ kind: "changed", vm: now }];
}

function stateEvents(before: Vm | undefined, now: Vm): VmEvent[] {
  const wasLive = before !== undefined && liveStates.has(before.state);
  const isLive = liveStates.has(now.state);
  // Another epoch: it ended and began again between two looks.
  const restarted = wasLive && isLive && before.epoch !== now.epoch;
  if (wasLive && !isLive)
    return [{ kind: "exited", vm: now, exit: now.lastExit ?? { reason: "lost", at: now.updatedAt } }];
  if (now.state === "running" && (restarted || before?.state !== "running"))
    return [{ kind: "started", vm: now }];
  if (now.state === "paused" && before?.state !== "paused") return [{ kind: "paused", vm: now }];
  return [];
}

function guestEvents(before: Vm | undefined, now: Vm): VmEvent[] {
  const wasReady = before?.guest === "ready" && before.epoch === now.epoch;
  return now.guest === "ready" && !wasReady ? [{ kind: "ready", vm: now }] : [];
}
