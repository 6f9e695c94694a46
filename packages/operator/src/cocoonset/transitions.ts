/** What a change of status is worth telling: once per transition, because it follows from what is persisted. */
import { findCondition, type CocoonSetStatus, type SetPhase } from "@cocoon/contract";
import type { Happening } from "./draft.ts";

export function happeningsOf(
  before: CocoonSetStatus | undefined,
  after: CocoonSetStatus,
): readonly Happening[] {
  return [...troubleOf(before, after), ...phaseHappening(before?.phase, after)];
}

function troubleOf(before: CocoonSetStatus | undefined, after: CocoonSetStatus): readonly Happening[] {
  const [old, now] = [
    findCondition(before?.conditions, "Degraded"),
    findCondition(after.conditions, "Degraded"),
  ];
  if (now?.status !== "True") return [];
  if (old?.status === "True" && old.reason === now.reason) return [];
  return [{ type: "Warning", reason: now.reason, message: now.message }];
}

const asleep: ReadonlySet<SetPhase> = new Set(["Suspended", "Suspending", "Waking"]);

function phaseHappening(before: SetPhase | undefined, { phase }: CocoonSetStatus): readonly Happening[] {
  if (phase === undefined || phase === before || before === undefined) return [];
  if (before === "Failed" && (phase === "Running" || phase === "Scaling"))
    return [{ type: "Normal", reason: "RecoveredFromFailure", message: "the main agent is ready again" }];
  if (phase === "Suspended")
    return [{ type: "Normal", reason: "Suspended", message: "every machine sleeps" }];
  if (phase === "Running" && asleep.has(before))
    return [{ type: "Normal", reason: "Woken", message: "every machine is awake again" }];
  return [];
}
